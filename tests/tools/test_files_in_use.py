from hypothesis import given, strategies as st

from tools.files_in_use import FilesInUse

PATHS = st.lists(st.sampled_from("abcdefgh"))


def test_the_newest_is_first() -> None:
    files = FilesInUse()

    files.touch(["/a", "/b"])
    files.touch(["/c"])
    files.touch(["/a"])

    assert files.first(2) == ("/a", "/c")
    assert files.first(5) == ("/a", "/c", "/b")
    assert files.first(0) == ()


def test_it_can_be_told_to_know_what_another_does() -> None:
    files, other = FilesInUse(["/a"]), FilesInUse(["/b"])

    files.become(other)
    other.touch(["/c"])

    assert files.first(9) == ("/b",)


def test_the_oldest_are_forgotten() -> None:
    files = FilesInUse([f"/{number}" for number in range(60)])

    assert files.first(99) == tuple(f"/{number}" for number in range(59, 9, -1))


@given(PATHS, PATHS, st.integers(1, 5))
def test_a_path_is_listed_once_and_after_all_used_later(
    before: list[str], after: list[str], most: int
) -> None:
    files = FilesInUse(before, most=most)

    files.touch(after)

    used = list(dict.fromkeys(reversed(before + after)))
    assert files.first(99) == tuple(used[:most])
