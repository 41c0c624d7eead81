import stat
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tools.spill import SpillFolder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_made_with_the_first_file_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "session" / "spill"
    spill = SpillFolder(folder)
    assert not folder.exists()

    path, file = spill.open("call_1")
    with file:
        file.write(b"all of it")

    assert path == folder / "call_1.txt"
    assert path.read_bytes() == b"all of it"
    assert (mode(folder), mode(path)) == (0o700, 0o600)


def test_a_name_used_twice_gets_a_number(tmp_path: Path) -> None:
    spill = SpillFolder(tmp_path)

    names = []
    for _ in range(3):
        path, file = spill.open("a")
        file.close()
        names.append(path.name)

    assert names == ["a.txt", "a-2.txt", "a-3.txt"]


def test_a_link_that_was_laid_beforehand_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    folder = tmp_path / "spill"
    folder.mkdir()
    (folder / "a.txt").symlink_to(target)

    path, file = SpillFolder(folder).open("a")
    file.close()

    assert path.name == "a-2.txt"
    assert target.read_bytes() == b"mine"


@given(st.text(st.characters(exclude_categories=()), max_size=300))
def test_any_call_id_gives_a_file_in_the_folder(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    folder = tmp_path_factory.mktemp("spill")

    path, file = SpillFolder(folder).open(name)
    file.close()

    assert list(folder.iterdir()) == [path]
