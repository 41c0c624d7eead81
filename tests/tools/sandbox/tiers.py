"""Which tiers the tests need, and what lets them do without."""

import functools
import os

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
