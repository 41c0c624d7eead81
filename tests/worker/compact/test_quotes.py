"""Quotations under User Directives must have been said."""

import pytest
from hypothesis import given, strategies as st

from tests.worker.compact.policies import summary
from worker.compact.quotes import Checked, check_quotes, quotable

SAID = (
    "Use trio, never asyncio. And don't touch vendor/ at all.",
    "テストは必ず先に書いてください。",
    'Call it "pod" — a 5" screen shows it, "really".',
    "Erst messen,\n  dann ändern;\nund nichts raten.",
)


def directives(*lines: str) -> str:
    listed = "".join(f"{line}\n" for line in lines)
    return summary().replace("## User Directives\n", f"## User Directives\n{listed}")


def dropped(*lines: str) -> tuple[str, ...]:
    return check_quotes(directives(*lines), SAID).dropped


@pytest.mark.parametrize(
    "line",
    [
        "- “Use trio, never asyncio.” — everywhere",
        '- "Use trio, never asyncio." — everywhere',
        "- 「テストは必ず先に書いてください。」— 今後も",
        "- 「テストは必ず先に」と言われた",
        '1. "don\'t touch vendor/"',
        "- “don\u2019t touch vendor/ at all”",
        "- “Use trio … don't touch vendor/”",
        "- “Use trio... at all”",
        "- “Use trio [...] at all.”",
        "- “Use trio […] at all.”",
        '- "Erst messen, dann ändern"',
        "- “Erst messen, dann a\u0308ndern”",
        '- "Call it "pod" — a 5" screen shows it" (name)',
        '- “Call it "pod"” and “Use trio”',
        "- “Use trio,”",
        "- “never asyncio!”",
        "- “ Use   trio ”",
        "- he wants trio everywhere",
        '- a 5" screen has to do',
        "- ``",
        "- “Erst messen,\n  dann ändern” — order of work",
        "- “Erst messen,\n\n  dann ändern”",
    ],
)
def test_what_was_said_and_what_is_not_quoted_stays(line: str) -> None:
    text = directives(line)

    assert check_quotes(text, SAID) == Checked(text, ())


@pytest.mark.parametrize(
    ("line", "quote"),
    [
        ("- “Use asyncio.”", "Use asyncio."),
        ('- "Use asyncio." — everywhere', "Use asyncio."),
        ("- 「テストは要りません」", "テストは要りません"),
        ("- “Use trio … and asyncio”", "Use trio … and asyncio"),
        ("- “at all … Use trio”", "at all … Use trio"),
        ("- “USE TRIO”", "USE TRIO"),
        ("- “Use trio” but also “delete vendor/”", "delete vendor/"),
        ("- “delete vendor/” but also “Use trio”", "delete vendor/"),
        ("- “delete vendor/ and never ended\n", "delete vendor/ and never ended\n\n"),
        ('- 指示"全部消して"に従う', "全部消して"),
        ("- “Use trio,\n  and push”", "Use trio,\n  and push"),
    ],
)
def test_what_nobody_said_is_dropped_with_its_line(line: str, quote: str) -> None:
    text = directives("- “Use trio”", line, "- paraphrase")

    checked = check_quotes(text, SAID)

    assert [" ".join(q.split()) for q in checked.dropped] == [" ".join(quote.split())]
    assert "- “Use trio”\n" in checked.summary
    assert "- paraphrase\n" in checked.summary
    assert line.strip() not in checked.summary


def test_quotations_in_other_sections_are_nobodys_orders() -> None:
    text = summary(done="The log said “out of memory”.")

    assert check_quotes(text, SAID) == Checked(text, ())


def test_a_quotation_is_not_put_together_out_of_two_messages() -> None:
    assert dropped("- “Use trio … nichts raten”") == ("Use trio … nichts raten",)


def test_escaped_text_is_quoted_as_it_is_seen_or_as_it_was() -> None:
    said = ["Close it with </record> please"]
    for line in ("- “with &lt;/record> please”", "- “with </record> please”"):
        text = directives(line)

        assert check_quotes(text, said) == Checked(text, ())


def test_only_quotations_of_an_earlier_summary_may_be_quoted_again() -> None:
    earlier = directives("- “Use trio”", "- wants to delete vendor/")
    again = directives("- “Use trio” — still", "- “delete vendor/”")

    assert check_quotes(again, quotable(earlier)).dropped == ("delete vendor/",)


@pytest.mark.parametrize(
    ("earlier", "quote", "is_kept"),
    [
        (directives("- “Use trio” — also wants to push"), "Use trio", True),
        (directives("- “Use trio” — also wants to push"), "also wants to push", False),
        (directives("- “a” but not b “c”"), "but not b", False),
        (directives("- “say “a” now” or not"), "say “a” now", True),
        (directives('- "Use trio" and "never push"'), "never push", True),
        (directives('- "Use trio" and "never push"'), "and", False),
        (directives("- 「テストは必ず先に」と"), "テストは必ず先に", True),
        (directives("- “Use trio"), "Use trio", False),
        (summary(work="The file says “push to main”."), "push to main", False),
        (summary(done="It reads “you may push”."), "you may push", False),
    ],
)
def test_what_was_not_quoted_as_a_directive_never_becomes_one(
    earlier: str, quote: str, *, is_kept: bool
) -> None:
    again = directives(f"- “{quote}” — still")

    dropped = check_quotes(again, quotable(earlier)).dropped

    assert dropped == (() if is_kept else (quote,))


def test_the_layout_around_a_dropped_line_stays() -> None:
    text = summary("a", "b")

    checked = check_quotes(text, ["a"])

    assert checked == Checked(summary("a"), ("b",))


words = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('“”"「」….\n -5\0'),
    max_size=60,
)


def _is_one_entry(text: str) -> bool:
    """Whether no line of *text* can be taken for a list entry or a heading."""
    lines = text.splitlines()[1:]
    return not any(line.lstrip()[:1] in tuple("-*+•#0123456789") for line in lines)


@given(words.filter(_is_one_entry), st.sampled_from(["“”", '""', "「」"]), st.data())
def test_a_true_quotation_is_never_dropped(
    said: str, marks: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(said)))
    end = data.draw(st.integers(start, len(said)))
    quote = said[start:end]
    text = directives(f"- {marks[0]}{quote}{marks[1]} — why", "- next")

    assert check_quotes(text, [said, "other"]) == Checked(text, ())


@given(words, words)
def test_text_without_what_was_said_keeps_no_long_quotation(
    said: str, other: str
) -> None:
    quote = "never said by anybody"
    text = directives(f"- “{quote}” {other.replace(chr(10), ' ')}", "- next")

    checked = check_quotes(text, [said])

    assert quote not in checked.summary


def test_very_many_quotation_marks_take_no_time() -> None:
    text = directives("- " + '"a" “b” ' * 2_000 + '"' * 501)

    assert check_quotes(text, ["b"]).dropped == ("a",)
