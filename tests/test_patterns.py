"""Regular expressions mean the same in every Python that Pod runs in."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pod", "worker", "tools", "prompts")

POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>")
"""CPython 3.11 before 3.11.5, Debian 12's say, matches a group wrongly that may not
be gone back into (gh-106052); a set of characters with ``*+`` is fine."""


def test_no_pattern_has_a_possessive_or_atomic_group() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for package in PACKAGES
        for file in sorted((ROOT / package).rglob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if POSSESSIVE_GROUP.search(line)
    ]

    assert found == []
