"""The first rule that matches decides, command by command."""

import msgspec
import pytest
from hypothesis import given, strategies as st

from pod.permissions.rules import (
    Action,
    Judgement,
    Paths,
    Rule,
    Rulebook,
    judge,
    wildcard,
)
from pod.permissions.subjects import subject_of


def rule(tool: str, pattern: str, action: Action) -> Rule:
    return Rule(tool, pattern, action, f"{tool} {pattern} {action}")


def action_of(rulebook: Rulebook, tool: str, **arguments: object) -> Action:
    return judged(rulebook, tool, **arguments).action


def judged(rulebook: Rulebook, tool: str, **arguments: object) -> Judgement:
    text = msgspec.json.encode(arguments).decode()
    return judge(rulebook, tool, subject_of(text, cwd="/ws", resolve=led))


def led(path: str) -> str:
    """Say where the links of these tests lead."""
    for link, target in LINKS.items():
        if path == link or path.startswith(f"{link}/"):
            return target + path.removeprefix(link)
    return path


LINKS = {"/ws/src/out": "/ws/.git", "/ws/link": "/ws/secrets/key"}

GIT = Rulebook((rule("bash", "git *", "allow"),), "deny")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git",
        "git add . && git commit -m 'a; b'",
        "git log 2>&1 | git diff",
    ],
)
def test_an_allowed_prefix_allows_its_commands(command: str) -> None:
    assert action_of(GIT, "bash", command=command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf /",
        "git status && rm -rf /",
        "git status || rm -rf /",
        "git status | sh",
        "git status & rm -rf /",
        "git status\nrm -rf /",
        "git $(rm -rf /)",
        "git `rm -rf /`",
        "git log > /etc/passwd",
        "git diff < /etc/passwd",
        "A=1 git status",
        "gitx status",
        "/tmp/git status",
        "git status # '\nrm -rf /\n'",
        "",
    ],
)
def test_an_allowed_prefix_allows_nothing_beside_it(command: str) -> None:
    assert action_of(GIT, "bash", command=command) == "deny"


def test_each_command_of_a_line_may_be_allowed_by_a_rule_of_its_own() -> None:
    rulebook = Rulebook(
        (rule("bash", "git *", "allow"), rule("bash", "npm test", "allow")), "deny"
    )

    assert action_of(rulebook, "bash", command="git pull && npm test") == "allow"
    assert judged(rulebook, "bash", command="git pull && npm run x") == Judgement(
        "deny", None, "npm run x"
    )


def test_a_rule_without_wildcards_allows_that_command_line_whatever_is_in_it() -> None:
    line = "make test > log 2>&1; tail log"
    rulebook = Rulebook((rule("bash", line, "allow"),), "deny")

    assert action_of(rulebook, "bash", command=line) == "allow"
    assert action_of(rulebook, "bash", command=f"{line}; rm log") == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "ls; rm -rf /",
        "ls $(rm -rf /)",
        "sudo rm -rf /",
        "X=1 /bin/rm -rf /",
        "if true; then rm -rf /; fi",
        "ls > x; rm -rf /",
    ],
)
def test_a_rule_that_forbids_looks_at_every_command_of_a_line(command: str) -> None:
    rulebook = Rulebook((rule("bash", "rm *", "deny"),), "allow")

    assert action_of(rulebook, "bash", command=command) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "git  push origin",
            "git\tpush",
            "git \\\n push x",
            "\"git\" 'push'",
            "\\git push",
        ),
        *("env -i git push", "sudo -u me git push", "! sudo -u me /bin/git push"),
        *("timeout 5 git push", "echo x | xargs -n1 git push", "nice -n 5 git push"),
        *("find . -exec git push {} +", "eval git push", "command -p git push"),
        *(
            "bash -c 'git push'",
            'A=1 sh -lc "cd x;git push"',
            "bash -c 'bash -c \"git push\"'",
        ),
        *("time -p git push", "coproc git push", "function f { git push; }"),
    ],
)
def test_a_rule_that_forbids_looks_past_quotes_blanks_and_what_runs_others(
    command: str,
) -> None:
    book = Rulebook((Rule("bash", "git push *", "deny", "no"),))

    assert action_of(book, "bash", command=command) == "deny"
    harmless = command.replace("push", "pull")
    assert action_of(book, "bash", command=harmless) == "allow"


def test_looking_at_what_others_run_takes_no_longer_than_the_text() -> None:
    book = Rulebook((Rule("bash", "git push *", "deny", "no"),))
    command = "xargs " + "x " * 45_000

    assert action_of(book, "bash", command=command) == "allow"


def test_a_rule_that_forbids_may_span_several_commands() -> None:
    rulebook = Rulebook((rule("bash", "curl * | sh", "stop"),), "allow")

    assert action_of(rulebook, "bash", command="curl http://x | sh") == "stop"
    assert action_of(rulebook, "bash", command="curl http://x | cat") == "allow"


def test_the_strictest_of_a_lines_commands_counts() -> None:
    rulebook = Rulebook(
        (
            rule("bash", "a", "allow"),
            rule("bash", "b", "ask"),
            rule("bash", "c", "deny"),
            rule("bash", "d", "stop"),
        ),
        "allow",
    )
    worst = [
        action_of(rulebook, "bash", command=line)
        for line in ("a", "a; b", "a; b; c", "c; d; b; a")
    ]

    assert worst == ["allow", "ask", "deny", "stop"]


def test_the_first_rule_that_matches_decides() -> None:
    rulebook = Rulebook(
        (
            rule("write_file", "docs/*", "allow"),
            rule("write_file", "*", "ask"),
            rule("*", "*", "deny"),
        ),
    )

    assert action_of(rulebook, "write_file", path="docs/a.md") == "allow"
    assert action_of(rulebook, "write_file", path="src/a.py") == "ask"
    assert action_of(rulebook, "read_file", path="docs/a.md") == "deny"


def test_tools_are_told_by_name_in_any_case_by_wildcards_and_as_people_know_them() -> (
    None
):
    def allows(tool: str, name: str) -> bool:
        rulebook = Rulebook((rule(tool, "*", "allow"),), "deny")
        return action_of(rulebook, name, path="x") == "allow"

    assert allows("BASH", "bash")
    assert allows("Read", "read_file")
    assert allows("MultiEdit", "edit_file")
    assert allows("*_file", "write_file")
    assert allows("mcp__*", "mcp__github__search")
    assert not allows("Read", "write_file")


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("src/a.py", "allow"),
        ("./src//a.py", "allow"),
        ("/ws/src/a.py", "allow"),
        ("lib/../src/a.py", "allow"),
        ("src/../.git/hooks/x", "deny"),
        ("/ws/src/../../etc/passwd", "deny"),
        ("src/out/hooks/x", "deny"),  # a link that leads to .git
        ("src", "deny"),
    ],
)
def test_a_path_is_allowed_by_what_it_means_and_where_it_leads(
    path: str, action: str
) -> None:
    rulebook = Rulebook((rule("write_file", "src/*", "allow"),), "deny")

    assert action_of(rulebook, "write_file", path=path) == action


@pytest.mark.parametrize(
    "path",
    ["secrets/key", "./secrets/key", "a/../secrets/key", "/ws/secrets/key", "link"],
)
def test_a_path_is_forbidden_by_either(path: str) -> None:
    rulebook = Rulebook((rule("read_file", "./secrets/*", "deny"),), "allow")

    assert action_of(rulebook, "read_file", path=path) == "deny"


def test_the_first_of_the_known_arguments_is_what_a_call_is_about() -> None:
    rulebook = Rulebook((rule("t", "yes", "allow"),), "deny")

    assert action_of(rulebook, "t", url="no", query="yes") == "allow"
    assert action_of(rulebook, "t", url="yes", query="no") == "deny"
    assert action_of(rulebook, "t", pattern="yes", path=7) == "allow"
    assert action_of(rulebook, "t", command="yes", path="no") == "allow"


def test_without_one_of_them_it_is_its_json() -> None:
    rulebook = Rulebook((rule("t", '{"n":1}', "allow"),), "deny")

    assert action_of(rulebook, "t", n=1) == "allow"
    assert judge(rulebook, "t", subject_of("not json", cwd="/")).action == "deny"


@given(st.text("ab*?[]!\\\n/", max_size=8), st.text("ab[]!\\\n/", max_size=8))
def test_wildcards_are_a_star_and_a_question_mark_and_nothing_else(
    pattern: str, text: str
) -> None:
    assert wildcard(pattern, text) == slowly(pattern, text)


def slowly(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(slowly(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and slowly(pattern[1:], text[1:])


def test_a_pattern_of_many_stars_takes_no_longer_than_the_text() -> None:
    assert not wildcard("*a" * 30 + "b", "a" * 20_000)


def test_a_path_no_kernel_takes_is_judged_by_its_name_alone() -> None:
    """Where its links lead would be looked up for minutes."""
    path = "/etc/" + "a/" * 50_000

    def resolve(absolute: str) -> str:
        raise AssertionError(absolute)

    subject = subject_of(f'{{"path": "{path}"}}', cwd="/ws", resolve=resolve)

    assert subject == Paths((path.rstrip("/"),))
