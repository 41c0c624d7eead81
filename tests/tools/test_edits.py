import time
import tracemalloc

import pytest
from hypothesis import given, strategies as st

from tools.base import ToolError
from tools.diff import diff
from tools.edits import Edit, apply_edits

TEXT = """def greet(name):
    if name:
        print("hello", name)
    return name


def leave(name):
    print("bye", name)
    return name
"""


def refusal(text: str, *edits: Edit) -> str:
    with pytest.raises(ToolError) as caught:
        apply_edits(text, edits)
    return str(caught.value)


def test_edits_are_applied_in_order_each_to_the_result_before() -> None:
    edits = [Edit("one", "two"), Edit("two three", "four")]

    assert apply_edits("one three\n", edits) == ("four\n", 2)


def test_every_occurrence_is_replaced_on_request() -> None:
    assert apply_edits("a-a-a", [Edit("a", "bb", True)]) == ("bb-bb-bb", 3)
    assert apply_edits("aaaaa", [Edit("aa", "b", True)]) == ("bba", 2)
    assert apply_edits("a-b", [Edit("a", "", True)]) == ("-b", 1)


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a\r\nb\r\nc\r\n", Edit("a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", Edit("a\r\nb", "x\r\ny"), "x\r\ny\r\n"),
        ("a\r\nb\r\n", Edit("b", "x\ny"), "a\r\nx\r\ny\r\n"),
        ("a\nb\n", Edit("a\r\nb", "x\r\ny"), "x\ny\n"),
        ("a\nb\r\nc\n", Edit("b\nc", "x\ny"), "a\nx\r\ny\n"),
        ("a\nb\r\nc\nd\n", Edit("c\nd", "x\ny"), "a\nb\r\nx\ny\n"),
        ("one line", Edit("one", "a\r\nb"), "a\r\nb line"),
    ],
)
def test_line_ends_are_kept(text: str, edit: Edit, expected: str) -> None:
    assert apply_edits(text, [edit]) == (expected, 1)


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=4))
def test_a_crlf_text_is_edited_like_an_lf_one(text: str, old: str) -> None:
    edit = Edit(old, "x\ny", True)
    crlf = text.replace("\n", "\r\n")

    try:
        expected, count = apply_edits(text, [edit])
    except ToolError:
        with pytest.raises(ToolError):
            apply_edits(crlf, [edit])
        return

    found, found_count = apply_edits(crlf, [edit])
    assert found_count == count
    if "\n" in text:
        assert found.replace("\r\n", "\n") == expected
        assert "\n" not in found.replace("\r\n", "") or "\r\n" not in crlf


@given(st.text(), st.text(min_size=1), st.text(), st.text())
def test_an_exact_unique_match_is_replaced(
    before: str, old: str, new: str, after: str
) -> None:
    text = before + old + after
    if text.find(old) != text.rfind(old) or "\r" in text + new or old == new:
        return

    assert apply_edits(text, [Edit(old, new)]) == (before + new + after, 1)


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (
            [Edit("", "x")],
            "old_text is empty; to write a whole file use write_file",
        ),
        (
            [Edit("name", "name")],
            "old_text and new_text are the same",
        ),
        (
            [Edit("    return name\n", "    pass\n")],
            (
                "old_text is in the file 2 times, at lines 4, 9: take in more of the "
                "text around the one you mean, or set replace_all"
            ),
        ),
        (
            [Edit('"bye"', '"ciao"'), Edit('"bye", name', "")],
            (
                "edit 2 of 2: old_text was in the file until an edit before it changed "
                "that place (they overlap): make one edit of the two"
            ),
        ),
        (
            [Edit("if name:\n    print", "x")],
            (
                "old_text is not in the file. What begins at line 2 differs in "
                "indentation or trailing blanks only:\n"
                '     2\t    if name:\n     3\t        print("hello", name)'
            ),
        ),
        (
            [Edit('print("bye",  name)', "x")],
            (
                "old_text is not in the file. Line 8 differs in blanks only:\n"
                '     8\t    print("bye", name)'
            ),
        ),
        (
            [Edit("print(“bye”, name)", "x")],
            (
                "old_text is not in the file. Line 8 differs in quotes, dashes or "
                'blanks only:\n     8\t    print("bye", name)'
            ),
        ),
        (
            [Edit("DEF leave", "x")],
            (
                "old_text is not in the file. Line 7 differs in upper and lower case "
                "only:\n     7\tdef leave(name):"
            ),
        ),
        (
            [Edit("     7\tdef leave(name):\n     8\t    print", "x")],
            (
                "old_text is not in the file. It is there without the line numbers: "
                "leave them out"
            ),
        ),
        (
            [Edit("if name:\\n        print", "x")],
            (
                'old_text is not in the file. It is there with \\n, \\t or \\" '
                "unescaped: it was escaped twice"
            ),
        ),
        (
            [Edit('    print("good bye", name)\n    return None', "x")],
            (
                "old_text is not in the file. What begins at line 8 is most like it:\n"
                '     8\t    print("bye", name)\n     9\t    return name'
            ),
        ),
        (
            [Edit("zzzzzz", "x")],
            (
                "old_text is not in the file. Nothing in it is like it: read the file "
                "again"
            ),
        ),
    ],
)
def test_an_error_lets_the_model_mend_its_call(
    edits: list[Edit], expected: str
) -> None:
    assert refusal(TEXT, *edits) == f"nothing was changed: {expected}"


@given(st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_any_old_text_is_found_or_complained_about(text: str, old: str) -> None:
    edit = Edit(old, old + "x", True)

    try:
        new, count = apply_edits(text, [edit])
    except ToolError as error:
        new, count = str(error), 0

    assert count == 0 or new != text


def test_a_miss_in_a_large_file_is_answered_soon() -> None:
    text = "".join(f"line number {n} of the file\n" for n in range(60_000))
    start = time.process_time()

    refusal(text, Edit("lime numbre\n" * 50, "x"))

    assert time.process_time() - start < 5


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_more_places_than_memory_has_room_for_are_refused(ending: str) -> None:
    text = "a" * 3_000_000 + ending
    tracemalloc.start()

    one = refusal(text, Edit("a", "b"))
    all_of_them = refusal(text, Edit("a", "b", True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "old_text is in the file more than 100,000 times, at lines 1, 1" in one
    assert all_of_them == (
        "nothing was changed: old_text is in the file more than 100,000 times: that is"
        " a change for a program"
    )
    assert peak < 40 * 1024 * 1024


def test_a_text_does_not_grow_without_end() -> None:
    text = "a\n" * 50_000

    said = refusal(text, Edit("a", "b" * 1_000, True))

    assert said == (
        "nothing was changed: the file would become too large, more than 20,971,520"
        " characters"
    )
    assert apply_edits(text, [Edit("a", "b" * 400, True)])[1] == 50_000


def test_a_diff_shows_the_changed_lines_with_their_numbers() -> None:
    old = "".join(f"{n}\n" for n in range(1, 31))
    new = old.replace("5\n6\n", "five\n", 1).replace("\n28\n", "\n28\nnew\n")

    assert diff(old, new) == (
        "      3\t3\n      4\t4\n-     5\t5\n-     6\t6\n+     5\tfive\n"
        "      6\t7\n      7\t8\n   …\n     26\t27\n     27\t28\n+    28\tnew\n"
        "     29\t29\n     30\t30"
    )


def test_a_large_diff_is_bounded_and_soon_made() -> None:
    start = time.process_time()

    some = diff("a\n" * 400, "b\n" * 400)
    huge = diff("a\n" * 100_000, "b\n" * 100_001)

    assert some.count("\n") == 80
    assert some.endswith("… and 720 more lines")
    assert huge == "100000 lines from line 1 on are now 100001"
    assert time.process_time() - start < 5
