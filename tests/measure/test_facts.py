"""What compactions must never lose, and never make up; what they lose is only counted."""

from pathlib import Path

import pytest
import trio

from tests.measure.facts import COMPACTIONS, WORKERS, Outcome, outcomes_of, table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quality.md"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    folder = tmp_path_factory.mktemp("facts").resolve()
    return trio.run(outcomes_of, folder, COMPACTIONS, 1)


def test_every_directive_is_in_the_context_and_everything_is_in_the_log(
    outcomes: dict[str, Outcome],
) -> None:
    lost = {
        (name, row): kept
        for name, outcome in outcomes.items()
        for row, kept in outcome.rows.items()
        if kept.log != kept.planted
        or (row == "directive" and kept.context != kept.planted)
    }

    assert lost == {}
    assert outcomes["careful"].standing == 0


def test_nothing_that_nobody_said_becomes_a_directive(
    outcomes: dict[str, Outcome],
) -> None:
    made_up = {name: (o.promoted, o.fabricated) for name, o in outcomes.items()}

    assert made_up == dict.fromkeys(WORKERS, (0, 0))
    assert outcomes["gullible"].dropped > 2 * COMPACTIONS  # it did try


def test_who_looks_keeps_more_than_who_does_not(outcomes: dict[str, Outcome]) -> None:
    careful, lazy, mechanical = (
        sum(kept.context for kept in outcomes[name].rows.values())
        for name in ("careful", "lazy", "mechanical")
    )

    assert careful > 5 * lazy
    assert mechanical > 5 * lazy


def test_over_ten_compactions_all_stays_within_its_budgets(
    outcomes: dict[str, Outcome],
) -> None:
    for outcome in outcomes.values():
        assert max(outcome.summary) <= 4_000
        assert max(outcome.after) < 12_000


def test_the_page_on_quality_has_the_table(outcomes: dict[str, Outcome]) -> None:
    page = PAGE.read_text(encoding="utf-8")

    rows = [" ".join(line.split()) for line in table(outcomes)]
    # Tokens differ with the length of the folder's name, what is kept does not.
    told = [row for row in rows if not row.startswith("tokens of")]

    assert [row for row in told if row not in " ".join(page.split())] == []
