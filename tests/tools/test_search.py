import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from tools.prefilter import find_rg, loosened, worth_a_look
from tools.search import LINE_CHARS, End, Grep, Line, search, search_text
from tools.text import decode

RG = shutil.which("rg")
needs_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not on PATH")


def found(text: str, pattern: str, context: int = 0, most: int = 99) -> list[Line]:
    return search_text(text, re.compile(pattern), context, most, 10_000)[0]


def test_lines_are_searched_one_by_one() -> None:
    assert found("one\r\ntwo\nthree", "o$|^t.*e$") == [
        Line(2, "two", True),
        Line(3, "three", True),
    ]
    assert found("a\n\nb\n", r"^\s*$") == [Line(2, "", True)]
    assert found("", "x*") == []


def test_context_overlaps_without_repeating_lines() -> None:
    text = "".join(f"{n}\n" for n in range(1, 20))

    lines = found(text, "^(5|7|15)$", context=2)

    assert [(line.number, line.is_match) for line in lines] == [
        (number, number in (5, 7, 15)) for number in [*range(3, 10), *range(13, 18)]
    ]


def test_the_search_ends_at_the_most_matches() -> None:
    lines, count = search_text("x\n" * 100, re.compile("x"), 0, 3, 10_000)

    assert [line.number for line in lines] == [1, 2, 3]
    assert count == 4


def test_what_is_shown_of_a_giant_line_lies_around_the_match() -> None:
    text = "a" * 100_000 + "needle" + "b" * 100_000

    (line,) = found(text, "needle")

    assert line.text == "…" + "a" * 100 + "needle" + "b" * (LINE_CHARS - 106) + "…"


def test_shown_lines_are_clean_and_single() -> None:
    (line,) = found("a\x1b[31mneedle\0\rb\n", "needle")

    assert line.text == "aneedle␀␍b"


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i)a",
        r"a(?=b)",
        r"(a)\1",
        r"\x41",
        "a\nb",
        "(?>a)",
        r"(?P<x>a)(?P=x)",
        "\ufffd",
    ],
)
def test_what_is_not_understood_is_not_loosened(pattern: str) -> None:
    assert loosened(pattern, ignore_case=False) is None


def test_usual_patterns_are_loosened() -> None:
    patterns = [
        r"def \w+\(",
        r"^class (?P<name>Foo|Bar)\b",
        "[a-z_]+x{2,3}",
        "{x}",
        "é.",
    ]

    assert [loosened(pattern, ignore_case=False) for pattern in patterns] == [
        r"def\x20(?-u:[0-9A-Za-z_]|[\x80-\xff]{1,4})+\x28",
        r"(?:)class\x20(?:Foo|Bar)(?:)",
        "[a-z_]+x{2,3}",
        r"\x7bx\x7d",
        r"é(?-u:[^\n]{1,4})",
    ]


ATOMS = st.sampled_from(
    [
        "a",
        "i",
        "I",
        "s",
        "k",
        "é",
        "ß",
        "\u017f",
        "漢",
        ".",
        r"\w",
        r"\W",
        r"\d",
        r"\s",
        r"\S",
        r"\b",
        r"\B",
        "^",
        "$",
        "[ai]",
        "[^a]",
        "[é-ü]",
        "[a-k]",
        "(?:a|é)",
        "(i|)",
        " ",
        "-",
        "{",
        "}",
        "]",
        r"\.",
        r"[\w-]",
        "[]a]",
        r"\t",
        "K",
        "İ",
        "²",
        "x{1,2}",
    ]
)
PATTERNS = st.lists(
    st.tuples(ATOMS, st.sampled_from(["", "", "", "*", "+", "?", "{2}"])).map("".join),
    min_size=1,
    max_size=5,
).map("".join)
TEXTS = st.text("aisk IKSéÉßẞ\u017f漢İ\u0131²\u0301\t-.{}]\x1c\u2028x", max_size=8)
ENCODED = st.tuples(
    TEXTS, st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "utf-16", "cp437"])
).map(lambda pair: pair[0].encode(pair[1], "ignore"))


@needs_rg
@given(PATTERNS, st.lists(ENCODED, min_size=4, max_size=12), st.booleans())
@example("i", ["İ".encode()], True)
@example("a.b", [b"a\xffb"], False)
@example("..?", [b"a"], False)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_ripgrep_never_drops_a_file_that_python_matches(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    contents: list[bytes],
    ignore_case: bool,
) -> None:
    try:
        regex = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        return
    loose = loosened(pattern, ignore_case=ignore_case)
    if loose is None or RG is None:
        return
    monkeypatch.chdir(tmp_path)
    names = [str(number) for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_bytes(content)
    matching = {
        name
        for name, content in zip(names, contents, strict=True)
        if search_text(decode(content), regex, 0, 9, 999)[1]
    }

    kept = set(worth_a_look(names, RG, loose, ignore_case=ignore_case))

    assert matching <= kept


@needs_rg
def test_ripgrep_drops_what_cannot_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["-", "--help", "a b", os.fsdecode(b"\xff\n")]
    for name in names:
        Path(name).write_text("needle" if name != "a b" else "hay")
    assert RG is not None

    kept = list(worth_a_look(names, RG, "needle", ignore_case=False))

    assert kept == ["-", "--help", os.fsdecode(b"\xff\n")]


@pytest.mark.parametrize("program", ["/nonexistent/rg", "/bin/ls"])
def test_a_ripgrep_that_fails_drops_nothing(program: str) -> None:
    kept = list(worth_a_look(["a", "b"], program, "x", ignore_case=False))

    assert kept == ["a", "b"]


def test_ripgrep_is_not_taken_from_where_a_model_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ws/bin").mkdir(parents=True)
    (tmp_path / "good").mkdir()
    for path in ("ws/bin/rg", "good/rg", "rg"):
        (tmp_path / path).write_text("#!/bin/sh\n")
        (tmp_path / path).chmod(0o755)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/rg").symlink_to("../ws/bin/rg")
    monkeypatch.chdir(tmp_path)
    paths = [f"{tmp_path}/ws/bin", f"{tmp_path}/bad", ".", "", f"{tmp_path}/good"]
    monkeypatch.setenv("PATH", os.pathsep.join(paths))

    found = find_rg([f"{tmp_path}/ws"])

    monkeypatch.setenv("PATH", os.pathsep.join(paths[:-1]))
    assert (found, find_rg([f"{tmp_path}/ws"])) == (f"{tmp_path}/good/rg", None)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_the_environment_of_a_program_is_not_searched() -> None:
    # With a byte order mark at its beginning it counts as text, whatever follows.
    env = {"\ufeffNAME": "value"}
    with subprocess.Popen(["sleep", "60"], env=env) as process:
        start = os.open(f"/proc/{process.pid}", os.O_RDONLY | os.O_DIRECTORY)
        request = Grep(
            start=start,
            is_folder=True,
            name="",
            above=(),
            pattern="=",
            ignore_case=False,
            glob="/environ",
            context=0,
            max_matches=9,
            rg=None,
        )

        frames = list(search(request))

        os.close(start)
        process.kill()
    assert frames == [End(files=1)]
