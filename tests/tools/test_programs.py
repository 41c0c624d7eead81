"""A Pod starts no program that lies in a folder its model can write in."""

from pathlib import Path

import pytest

from tools.programs import find_program


def program(folder: Path, name: str = "prog") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_the_first_on_the_path_is_taken(tmp_path: Path) -> None:
    first, second = program(tmp_path / "a"), program(tmp_path / "b")

    path = f"{first.parent}:{second.parent}"
    assert find_program("prog", outside=[], path=path) == str(first)
    assert find_program("other", outside=[], path=path) is None


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin", "../ws/bin"])
def test_a_folder_that_is_not_absolute_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    for folder in (".", "bin"):
        program(tmp_path / "ws" / folder)
    monkeypatch.chdir(tmp_path / "ws")

    assert find_program("prog", outside=[], path=entry) is None


def test_what_lies_in_a_write_root_is_passed_over_by_name_and_behind_a_link(
    tmp_path: Path,
) -> None:
    ours = program(tmp_path / "bin")
    theirs = program(tmp_path / "ws" / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "prog").symlink_to(theirs)
    (tmp_path / "ws" / "linked").mkdir()
    (tmp_path / "ws" / "linked" / "prog").symlink_to(ours)
    roots = [str(tmp_path / "ws")]
    path = ":".join(
        str(tmp_path / folder)
        for folder in ("ws/bin", "links", "ws/linked", "bin/../ws/bin", "bin")
    )

    assert find_program("prog", outside=roots, path=path) == str(ours)


def test_what_cannot_be_run_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path / "a").chmod(0o644)
    (tmp_path / "b" / "prog").mkdir(parents=True)
    ours = program(tmp_path / "c")

    path = ":".join(str(tmp_path / folder) for folder in "abc")
    assert find_program("prog", outside=[], path=path) == str(ours)


def test_where_a_model_may_write_everywhere_the_systems_own_are_taken() -> None:
    assert find_program("sh", outside=["/"]) in ("/usr/bin/sh", "/bin/sh")
    assert find_program("sh", outside=["/"], path="/nowhere") is None


def test_a_folder_that_may_not_be_looked_into_is_passed_over(tmp_path: Path) -> None:
    long = "x" * 5_000  # what fails in the same place for root, too
    ours = program(tmp_path / "bin")

    path = f"/{long}:{ours.parent}"
    assert find_program("prog", outside=[], path=path) == str(ours)
