import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tools.patterns import depth_of, expand, split_base, to_regex


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", ".py"], ["a.pyc", "src/a.py", "a.py/"]),
        ("**/*.py", ["a.py", "src/a.py", "a/b/c.py"], ["a.pyi"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
        ("src/", ["src/a", "src/a/b"], ["src"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "ab"]),
        ("./a?c.[ch]", ["abc.c", "a.c.h"], ["ac.c", "a/c.c", "abc.o"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "/x"]),
        ("[]]", ["]"], ["[]]"]),
        ("[a", ["[a"], ["a"]),
        ("[[:alpha:]", ["[[:alpha:]"], ["[a", "a"]),
        ("[z-a]", ["z"], ["a", "-", "m"]),
        ("[a--]", ["a"], ["-"]),
        ("[[:digit:]_-]x", ["0x", "_x", "-x"], ["ax", ":x"]),
        (r"[\]\\a]", ["]", "\\", "a"], ["b"]),
        (r"\*", ["*"], ["a"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("a.b+(c)", ["a.b+(c)"], ["axb+(c)"]),
        ("?\n", ["x\n"], ["x"]),
    ],
)
def test_patterns_match_paths(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    regex = to_regex(pattern)

    found = [path for path in [*matching, *other] if regex.fullmatch(path)]

    assert found == matching


SETS = st.text("ab-]^!\\[:&", max_size=6) | st.lists(
    st.sampled_from(["[:alpha:]", "[:punct:]", "[:x:]", "[:", ":]", "-", "a", "]"]),
    max_size=4,
).map("".join)
IN_SETS = "abzAZ059-][^!\\&+~ _."


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(SETS, min_size=10, max_size=20))
def test_sets_mean_what_git_says(tmp_path: Path, sets: list[str]) -> None:
    """Each set behind a number of its own, so that git is asked once for all."""
    rules = [f"{n}[{inner}]" for n, inner in enumerate(sets, start=100)]
    (tmp_path / "rules").write_text("".join(f"{rule}\n" for rule in rules))
    names = [f"{n}{char}" for n in range(100, 100 + len(sets)) for char in IN_SETS]
    git = ["git", "-c", f"core.excludesFile={tmp_path}/rules", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)

    ignored = subprocess.run(
        [*git, "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(names),
        capture_output=True,
        text=True,
        check=False,  # 1: none is
    ).stdout

    regexes = list(map(to_regex, rules))
    matching = [name for name in names if any(r.fullmatch(name) for r in regexes)]
    assert matching == ignored.split("\0")[:-1]


def naive(pattern: list[str], path: list[str]) -> bool:
    """Match by the definition, part for part."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return any(naive(pattern[1:], path[n:]) for n in range(len(path) + 1))
    return (
        bool(path)
        and name_matches(pattern[0], path[0])
        and naive(pattern[1:], path[1:])
    )


def name_matches(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(name_matches(pattern[1:], name[n:]) for n in range(len(name) + 1))
    return (
        name[:1] != ""
        and pattern[0] in ("?", name[0])
        and name_matches(pattern[1:], name[1:])
    )


NAMES = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=4)
PARTS = st.text("ab*?", min_size=1, max_size=3) | st.just("**")


@given(st.lists(PARTS, min_size=1, max_size=4), NAMES)
def test_patterns_mean_what_the_definition_says(
    pattern: list[str], path: list[str]
) -> None:
    matches = to_regex("/".join(pattern)).fullmatch("/".join(path)) is not None

    pattern = [
        p for i, p in enumerate(pattern) if p != "**" or pattern[i - 1 : i] != ["**"]
    ]
    parts = [p if p == "**" else re.sub(r"\*+", "*", p) for p in pattern]
    assert matches is naive(parts, path)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_a_pattern(pattern: str, path: str) -> None:
    to_regex(pattern).fullmatch(path)


def test_many_stars_take_no_longer_than_their_number_times_the_path() -> None:
    name, path = "a" * 5_000, "a/" * 500
    started = time.thread_time()

    assert not to_regex("*a" * 30 + "b").fullmatch(name)
    assert to_regex("*a" * 30).fullmatch(name)
    assert not to_regex("**/a/" * 30 + "b").fullmatch(path + "a")
    assert to_regex("**/a/" * 30 + "**").fullmatch(path + "b")

    # It takes milliseconds; in all ways it would not end.
    assert time.thread_time() - started < 10


def test_sets_that_do_not_end_are_read_once() -> None:
    started = time.thread_time()

    to_regex("[" * 100_000)
    to_regex("[[:alpha:]" * 20_000)

    # Each read to the end of all would take minutes.
    assert time.thread_time() - started < 10


def test_braces_are_written_out() -> None:
    found = [expand(p) for p in ("*.{ts,tsx}", "{a,b}/{c,{d,e}}", "{}", "{a}", "a,b}")]

    assert found == [
        ["*.ts", "*.tsx"],
        ["a/c", "a/d", "a/e", "b/c", "b/d", "b/e"],
        ["{}"],
        ["{a}"],
        ["a,b}"],
    ]


def test_a_bomb_of_braces_is_refused() -> None:
    with pytest.raises(ValueError, match="over 200 alternatives"):
        expand("{a,b}" * 40)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src/lib/*.py", ("src/lib", "*.py")),
        ("*.py", ("", "*.py")),
        ("src/a.py", ("src", "a.py")),
        ("/ws/src/**/*.py", ("/ws/src", "**/*.py")),
        ("/*.py", ("/", "*.py")),
        ("../x/{a,b}/c", ("../x", "{a,b}/c")),
        ("src/", ("src", "")),
    ],
)
def test_plain_folders_are_split_off(pattern: str, expected: tuple[str, str]) -> None:
    assert split_base(pattern) == expected


def test_depth_is_known_without_double_stars() -> None:
    assert [depth_of(p) for p in ("*", "a/*", "./a/b/c", "**/x")] == [1, 2, 3, None]
