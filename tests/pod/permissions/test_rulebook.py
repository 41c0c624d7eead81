"""The manifest's [permissions], its mode and its lists, as rules in their order."""

import pytest

from pod.manifest import PermissionMode
from pod.merge import merge
from pod.permissions.rulebook import rulebook_of, split_tools
from pod.permissions.rules import Action, Rule, Rulebook, judge
from pod.permissions.subjects import subject_of

RULES = b"""
[[permissions.rules]]
tool = "bash"
pattern = "git *"
action = "allow"

[[permissions.rules]]
tool = "Bash"
pattern = "rm:*"
action = "deny"

[[permissions.rules]]
tool = "write_file"
action = "ask"
"""


def rulebook(text: bytes = RULES, *settings: str) -> Rulebook:
    return rulebook_of(merge(text, "pod.toml", settings).manifest.permissions)


def test_rules_are_taken_in_their_order_and_say_where_they_stand() -> None:
    assert rulebook() == Rulebook(
        rules=(
            Rule(
                "bash", "git *", "allow", '[[permissions.rules]] 1: bash "git *" allow'
            ),
            Rule("Bash", "rm *", "deny", '[[permissions.rules]] 2: Bash "rm:*" deny'),
            Rule(
                "write_file", "*", "ask", '[[permissions.rules]] 3: write_file "*" ask'
            ),
        ),
        default="allow",
    )


def test_without_any_rule_everything_is_allowed() -> None:
    assert rulebook(b"").is_open


def test_the_lists_stand_before_the_rules_and_make_the_default_deny() -> None:
    made = rulebook(
        RULES,
        'permissions.allowed_tools=["Read", "Bash(ls *)"]',
        'permissions.disallowed_tools=["Bash(git push:*)"]',
    )

    assert made.rules[:3] == (
        Rule("Bash", "git push *", "deny", "disallowed_tools: Bash(git push:*)"),
        Rule("Read", "*", "allow", "allowed_tools: Read"),
        Rule("Bash", "ls *", "allow", "allowed_tools: Bash(ls *)"),
    )
    assert len(made.rules) == 6
    assert made.default == "deny"


def test_a_default_that_is_set_counts_with_a_list_too() -> None:
    made = rulebook(
        b"", 'permissions.allowed_tools=["Read"]', "permissions.default_action=allow"
    )

    assert made.default == "allow"


CALLS = {
    "git": ("bash", '{"command":"git status"}'),
    "rm": ("bash", '{"command":"rm x"}'),
    "make": ("bash", '{"command":"make"}'),
    "write": ("write_file", '{"path":"x"}'),
    "edit": ("edit_file", '{"path":"x"}'),
    "read": ("read_file", '{"path":"x"}'),
}


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        ("default", "git:allow rm:deny make:allow write:ask edit:allow read:allow"),
        ("acceptEdits", "git:allow rm:deny make:ask write:ask edit:allow read:allow"),
        ("dontAsk", "git:allow rm:deny make:deny write:deny edit:deny read:deny"),
        (
            "bypassPermissions",
            "git:allow rm:deny make:allow write:allow edit:allow read:allow",
        ),
    ],
)
def test_what_each_mode_makes_of_the_same_rules(
    mode: PermissionMode, outcome: str
) -> None:
    made = rulebook(RULES, f"permissions.mode={mode}")

    def final(call: str) -> Action:
        tool, arguments = CALLS[call]
        action = judge(made, tool, subject_of(arguments, cwd="/")).action
        return made.asking if action == "ask" else action

    assert " ".join(f"{call}:{final(call)}" for call in CALLS) == outcome


def test_the_plan_mode_reads_only_whatever_the_rules_say() -> None:
    made = rulebook(RULES, "permissions.mode=plan")

    assert made.is_read_only


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("Read", ("Read",)),
        ("Read,Write , Bash(git *)", ("Read", "Write", "Bash(git *)")),
        ("Bash(git log *) Read", ("Bash(git log *)", "Read")),
        ("Bash(f(x), y) Read", ("Bash(f(x), y)", "Read")),
        (" , ", ()),
    ],
)
def test_tools_are_listed_as_people_write_them(
    text: str, tools: tuple[str, ...]
) -> None:
    assert split_tools(text) == tools
