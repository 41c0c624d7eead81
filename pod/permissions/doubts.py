"""What looks wrong in a manifest's permission rules, though it can be followed."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from msgspec import Struct

from pod.manifest import PermissionsTable
from pod.permissions.rulebook import rulebook_of
from pod.permissions.rules import ALIASES, Rule, is_of
from pod.toml_text import quoted


class Doubt(Struct, frozen=True):
    """Something about the value of *key* in [permissions]."""

    key: str
    text: str


def doubts(table: PermissionsTable, tools: Sequence[str]) -> Iterator[Doubt]:
    """Find rules that bear on none of *tools*, and rules that never decide."""
    rulebook = rulebook_of(table)
    keys = [
        *(["disallowed_tools"] * len(table.disallowed_tools)),
        *(["allowed_tools"] * len(table.allowed_tools)),
        *(["rules"] * len(table.rules)),
    ]
    covering: list[Rule] = []
    for key, rule in zip(keys, rulebook.rules, strict=False):
        shown = rule.shown.removeprefix(f"{key}: ")
        meant = [tool for tool in tools if is_of(rule, tool)]
        if not meant:
            yield Doubt(key, f"{shown}: {_unknown(rule.tool, tools)}")
            continue
        before = next((c for c in covering if _covers(c, rule, meant)), None)
        if before is not None:
            yield Doubt(key, f"{shown}: never decides, behind {before.shown}")
        covering.append(rule)


def _unknown(name: str, tools: Sequence[str]) -> str:
    near = get_close_matches(name.lower(), [*tools, *ALIASES], n=1)
    hint = f"; did you mean {quoted(near[0])}?" if near else ""
    return f"there is no tool {quoted(name)}{hint}"


def _covers(earlier: Rule, later: Rule, meant: Sequence[str]) -> bool:
    """Whether every call that *later* is about is decided by *earlier*.

    Of commands that is certain for the same pattern and action only: what
    forbids looks at more than what allows.
    """
    if not all(is_of(earlier, tool) for tool in meant):
        return False
    is_same = (earlier.pattern, earlier.action) == (later.pattern, later.action)
    return earlier.pattern == "*" or is_same
