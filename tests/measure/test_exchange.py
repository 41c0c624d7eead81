"""Nothing gets out while files and links change places. All of it: a command."""

import ctypes

import pytest

from tests.measure.exchange import control, everybody

OPENS = 120

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "renameat2"), reason="needs renameat2"
)


@pytest.mark.timeout(120)
def test_no_tool_opens_anything_outside_as_root_or_as_a_user() -> None:
    measured = everybody(OPENS)

    escapes = [
        (figures.user, row.tool, row.way, row.escapes)
        for figures in measured
        for row in figures.rows
        if row.escapes
    ]
    assert escapes == []
    # Both outcomes were seen in all, so the race was on.
    rows = [row for figures in measured for row in figures.rows]
    assert sum(row.refused for row in rows) > 0
    assert sum(row.inside for row in rows) > 0


def test_looking_before_opening_is_not_enough() -> None:
    """What the race would show, were there anything to see."""
    assert any(control(500).escapes for _ in range(10))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_thirty_thousand_opens_of_each_tool() -> None:
    assert [wrong for figures in everybody(30_000) for wrong in figures.wrong] == []
