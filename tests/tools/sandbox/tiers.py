"""Which tiers the tests need, and what lets them do without."""

import functools
import os
from typing import Literal

import pytest

from tools.sandbox.policy import Tier
from tools.sandbox.probe import probe

WITHOUT = {
    "bwrap": "POD_TESTS_WITHOUT_BWRAP",
    "landlock": "POD_TESTS_WITHOUT_LANDLOCK",
}
"""A tier that is not there fails its tests, unless this variable is set."""


@functools.cache
def _trouble(tier: Tier) -> str:
    match tier:
        case "bwrap" | "landlock":
            report = probe(tier)
            return "" if report.tier == tier else report.refusal
        case "off":
            return ""
        case "seatbelt":
            return "never tried"


def need(tier: Tier) -> None:
    """Fail the test where *tier* does not work here, or skip it if one may."""
    if not (trouble := _trouble(tier)):
        return
    variable = WITHOUT.get(tier, "")
    if os.environ.get(variable):
        pytest.skip(f"{variable} is set: {trouble}")
    pytest.fail(f"{trouble}\n(To do without its tests, set {variable}=1.)")


@functools.cache
def some_mode() -> Literal["auto", "off"]:
    """Return the mode of tests that need a bash, no matter what holds it."""
    return "auto" if probe().tier else "off"


def some_bash() -> str:
    """Return the table of a manifest with that mode."""
    return f'[sandbox]\nmode = "{some_mode()}"\n'
