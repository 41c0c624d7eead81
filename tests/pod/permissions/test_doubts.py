"""Rules that cannot have been meant like that are told of."""

import pytest

from pod.manifest import PermissionsTable, RuleTable
from pod.permissions.doubts import Doubt, doubts

TOOLS = ("bash", "read_file", "write_file", "search")


def of(**fields: object) -> list[str]:
    table = PermissionsTable(**fields)  # type: ignore[arg-type]  # named by the test
    return [f"{doubt.key}: {doubt.text}" for doubt in doubts(table, TOOLS)]


def test_rules_for_tools_that_are_there_raise_none() -> None:
    rules = (
        RuleTable(action="deny", tool="bash", pattern="rm *"),
        RuleTable(action="allow", tool="BASH"),
        RuleTable(action="allow", tool="Read"),
        RuleTable(action="ask", tool="s*"),
        RuleTable(action="deny"),
    )
    assert of(rules=rules, allowed_tools=("Write",)) == []


@pytest.mark.parametrize(
    ("tool", "hint"),
    [
        ("bsh", '; did you mean "bash"?'),
        ("reed", '; did you mean "read"?'),
        ("web_fetch", ""),
        ("mcp__*", ""),
    ],
)
def test_a_tool_that_is_not_there_is_named(tool: str, hint: str) -> None:
    missing = f'there is no tool "{tool}"{hint}'
    assert of(rules=(RuleTable(action="deny", tool=tool),)) == [
        f'rules: [[permissions.rules]] 1: {tool} "*" deny: {missing}'
    ]
    assert of(disallowed_tools=(tool,)) == [f"disallowed_tools: {tool}: {missing}"]


def test_a_rule_behind_one_that_decides_everything_is_named() -> None:
    rules = (
        RuleTable(action="allow", tool="bash"),
        RuleTable(action="deny", tool="Bash", pattern="rm *"),
        RuleTable(action="deny", pattern="x"),
    )

    assert list(doubts(PermissionsTable(rules=rules), TOOLS)) == [
        Doubt(
            "rules",
            '[[permissions.rules]] 2: Bash "rm *" deny: never decides, behind'
            ' [[permissions.rules]] 1: bash "*" allow',
        )
    ]
