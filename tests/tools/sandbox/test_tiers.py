"""A tier that is not there fails its tests loudly, or skips them where one says so."""

import os
import subprocess
import sys

import pytest

from tests.recorded import inherited
from tests.tools.sandbox.tiers import WITHOUT

ASKED = """
import sys
from tests.tools.sandbox.lesser import lessen
lessen(["bwrap", "landlock"])
from tests.tools.sandbox.tiers import need, some_mode

need("off")
print(some_mode())
try:
    need(sys.argv[1])
except BaseException as outcome:
    print(type(outcome).__name__)
    print(outcome)
"""


def asked(tier: str, **variables: str) -> list[str]:
    """Ask for *tier* on a machine that has none; return what came of it."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, tier],
        env={"PATH": os.environ["PATH"], **inherited(), **variables},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("tier", WITHOUT)
def test_without_the_variable_it_fails_and_names_it(tier: str) -> None:
    mode, outcome, first, *_, last = asked(tier)

    assert (mode, outcome) == ("off", "Failed")
    assert first == (
        f'no sandbox for bash: mode = "{tier}" does not work on this machine'
    )
    assert last == f"(To do without its tests, set {WITHOUT[tier]}=1.)"


@pytest.mark.parametrize("tier", WITHOUT)
def test_with_the_variable_it_is_skipped_with_the_reason(tier: str) -> None:
    mode, outcome, reason, *_ = asked(tier, **{WITHOUT[tier]: "1"})

    assert (mode, outcome) == ("off", "Skipped")
    assert reason.startswith(f"{WITHOUT[tier]} is set: no sandbox for bash: ")
