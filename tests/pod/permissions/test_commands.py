"""Where commands begin, on the safe side; bash itself is asked whether it is."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from pod.permissions.commands import Command, bare, split_command
from pod.permissions.rules import Rule, Rulebook, judge


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("git status", ("git status",)),
        ("git status; rm -rf /", ("git status", "rm -rf /")),
        ("git status && rm x || ls", ("git status", "rm x", "ls")),
        ("git log | head\nls &", ("git log", "head", "ls")),
        ("(cd x; ls)", ("cd x", "ls")),
        ("git commit -m 'a; b && c'", ("git commit -m 'a; b && c'",)),
        ('git commit -m "say \\"a; b\\""', ('git commit -m "say \\"a; b\\""',)),
        ("echo a\\; b", ("echo a\\; b",)),
        ("npm test 2>&1", ("npm test",)),
        ("npm test >/dev/null 2>&1; ls", ("npm test", "ls")),
        ("git log --grep=#12", ("git log --grep=#12",)),
        ("  ;; ", ("  ;; ".strip(),)),
    ],
)
def test_a_command_line_is_taken_apart(text: str, parts: tuple[str, ...]) -> None:
    assert split_command(text) == Command(text.strip(), parts, is_unclear=False)


@pytest.mark.parametrize(
    "text",
    [
        "echo $(rm x)",
        "echo `rm x`",
        "test -v 'a[$(rm x)]'",
        "echo ${x:-$(rm x)}",
        "echo $'a\\'; rm x'",
        "git log > .git/hooks/pre-commit",
        "cat < /etc/passwd",
        "cat <</dev/null\nrm x\n/dev/null",
        "git status # '\nrm x\n# '",
        "git status \\\n# '\nrm x\n# '",
        "echo 'never closed",
        "x" * 100_001,
    ],
)
def test_what_is_not_certain_is_unclear(text: str) -> None:
    assert split_command(text).is_unclear


WORDS = (
    *(
        "safe ",
        "evil",
        "evil ",
        "\n",
        "'",
        '"',
        "\\",
        "\\\n",
        "#",
        " #",
        ";",
        "&&",
        "|",
        "&",
    ),
    *(
        "$",
        "{",
        "}",
        "!",
        "=",
        "x",
        "\t",
        "\r",
        "\x0b",
        "if ",
        "then ",
        "((",
        "*",
        "a[",
        "]",
    ),
    *("2>&1", " >/dev/null", "</dev/null", ">", "<", "$(", "`", "<<x", "~", "eval "),
)


@given(st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
@example(" \\\n# '\nevil\n# '")
@example("<<x\nevil\nx\nevil")
@example("x # '\nevil\n'")
@example('"\\";evil;"')
@example(" 2>&1\revil")
@example("evil 2>&1\x0b")
@example("\\2>&1\x0bevil")
@settings(max_examples=400, deadline=None)
def test_what_a_pattern_allows_makes_bash_run_nothing_else(
    scratch: Path, rest: str
) -> None:
    rulebook = Rulebook((Rule("bash", "safe *", "allow", ""),), "deny")
    text = f"safe {rest}"
    if judge(rulebook, "bash", split_command(text)).action != "allow":
        return
    mark = scratch / "ran"

    subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=scratch,
        env={
            "PATH": "/nonexistent",
            "MARK": str(mark),
            "BASH_FUNC_safe%%": "() { :; }",
            "BASH_FUNC_evil%%": '() { printf x > "$MARK"; }',
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert not mark.exists(), text
    assert not list(scratch.iterdir()), text


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bash")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("rm -rf /", "rm -rf /"),
        ("A=1 B='x y' rm -rf /", "rm -rf /"),
        ("sudo nohup /bin/rm x", "rm x"),
        ("then rm x", "rm x"),
        ("! ./rm", "rm"),
        ("if docker push x", "docker push x"),
        ("env timeoutx rm", "timeoutx rm"),
        ("A='x y", "y"),
        ("", ""),
    ],
)
def test_a_rule_that_forbids_looks_behind_what_stands_in_front(
    part: str, name: str
) -> None:
    assert bare(part) == name


@pytest.mark.parametrize("value", ["'x'", "'", "'\"", "' '", '"'])
def test_looking_behind_takes_no_longer_than_the_text(value: str) -> None:
    part = "A=" + value * 20_000
    assert bare(part) == part
