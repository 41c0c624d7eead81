"""A report is its own memory: what it says can be read back."""

from hypothesis import given, strategies as st

from pod.survey.listing import Listed, Listing
from pod.survey.look import Seen
from pod.survey.markdown import plain
from pod.survey.report import (
    DONE,
    MORE,
    Facts,
    Report,
    beginning,
    left_out,
    read_report,
    section,
    title_of,
)
from pod.survey.task import Task

TASK = Task(folder="/some/where")
lines = st.lists(
    st.one_of(
        st.text(), st.sampled_from(["# x", "### `y`", DONE, MORE, "*a · 1 line*"])
    )
)


@given(
    path=st.text(min_size=1).filter(lambda path: "\0" not in path),
    size=st.none() | st.integers(0, 10**12),
    kind=st.sampled_from(["Python", "C++", "JSON lines", "Text", "Markdown"]),
    texts=lines,
)
def test_what_a_section_says_is_read_back(
    path: str, size: int | None, kind: str, texts: list[str]
) -> None:
    seen = Seen(kind, tuple(enumerate(texts, start=1)), len(texts))
    text = section(Listed(path, size), seen, is_first=True)

    report = read_report(f"{beginning(TASK)}\n{text}".split("\n"))

    (facts,) = report.facts.values()
    assert (facts.path, facts.size, facts.kind) == (path, size, kind)
    assert facts.lines == len(texts)
    assert report.title == title_of(TASK)
    assert report.is_ours
    assert not report.is_finished


@given(problem=st.text(min_size=1).filter(lambda text: plain(text)))
def test_why_a_file_was_not_read_is_read_back(problem: str) -> None:
    text = section(Listed("a", 5), Seen("Text", problem=problem), is_first=False)

    (facts,) = read_report(text.split("\n")).facts.values()

    again = section(Listed("a", 5), Seen("Text", problem=facts.problem), is_first=False)
    assert again == text


def test_a_file_of_somebody_else_is_not_ours() -> None:
    assert read_report(["# Survey of where", "text"]) == Report(
        "# Survey of where", is_ours=False, facts={}, is_finished=False
    )


def test_files_left_out_are_counted_by_reason() -> None:
    listing = Listing((), (("beyond the cap", 3), ("generated", 1)), 10, 100)
    facts = [
        Facts("b.x", 1, problem="binary"),
        Facts("a.x", 1, problem="binary"),
        Facts("ok.py", 1, "Python", 1),
    ]

    assert left_out(TASK, listing, facts) == [
        "3 files beyond the cap of 150 (some of every kind were read)",
        "1 file: generated",
        "2 files: binary (`b.x`, `a.x`)",
    ]
    assert left_out(TASK, listing, facts, names=False)[2:] == ["2 files: binary"]
