"""The fuzzer itself, what it found before, and a short run of each of its targets."""

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.fuzz import mutate
from tests.fuzz.__main__ import FOUND
from tests.fuzz.coverage import Coverage
from tests.fuzz.engine import Target, fuzz, run
from tests.fuzz.mutate import MOST_BYTES, mutated
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_give_a_result_or_an_error(name: str) -> None:
    seed = SystemRandom().randrange(2**32)

    report = fuzz(TARGETS[name](), seconds=1.5, seed=seed)

    assert report.bugs == [], f"seed {seed}"
    assert report.runs > len(TARGETS[name]().seeds)


@pytest.mark.parametrize(
    "file", sorted(filter(Path.is_file, FOUND.rglob("*"))) or [None], ids=str
)
def test_what_was_found_stays_mended(file: Path | None) -> None:
    if file is None:
        pytest.skip("nothing was found yet")
    target = TARGETS[file.parent.name]()

    assert run(target, file.read_bytes(), Coverage(target.modules))[1] is None


def picky(data: bytes) -> None:
    """Fail on three bytes, one after the other: nobody guesses them at once."""
    if data[:1] == b"P":
        mutate.NASTY  # noqa: B018  a line of its own to be covered
        if data[1:2] == b"o":
            mutate.NASTY  # noqa: B018
            if data[2:3] == b"d":
                raise ValueError("found")


def stuck(data: bytes) -> None:
    while data == b"stuck":
        pass


def target_of(parse: Callable[[bytes], None], *seeds: bytes) -> Target:
    module = sys.modules[__name__]
    return Target("test", parse, (module,), seeds, (b"x",))


def test_coverage_leads_to_a_crash_behind_three_conditions() -> None:
    report = fuzz(target_of(picky, b"abc"), seconds=20, seed=1, most_bugs=1)

    (bug,) = report.bugs
    assert bug.data[:3] == b"Pod"
    assert "ValueError: found" in bug.what


def test_an_input_that_never_ends_is_found() -> None:
    report = fuzz(target_of(stuck, b"stuck"), seconds=1, seed=1, longest=0.2)

    assert [bug.what for bug in report.bugs] == ["no end after 0.2 s"]


def test_inputs_stay_small_and_follow_from_the_seed() -> None:
    def made(seed: int) -> list[bytes]:
        random = Random(seed)
        return [mutated(b"abc" * 9_000, [b"x"], [b"y"], random) for _ in range(50)]

    assert made(3) == made(3)
    assert made(3) != made(4)
    assert max(map(len, made(3))) <= MOST_BYTES
