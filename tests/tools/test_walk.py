import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tools.ignore import IgnoreFile, Rules
from tools.walk import MOST_DEEP, open_found, walk


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def files_in(folder: Path, rules: Rules | None = None) -> list[str]:
    with opened(folder) as fd:
        found = list(walk(fd, rules or Rules()))
    return [entry.path for entry in found if not entry.is_folder]


def make(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def test_files_come_in_the_order_of_their_paths(folder: Path) -> None:
    make(folder, "b", "a/z", "a.txt", "a/b/c", ".hidden", ".github/ci.yml", "B")

    assert files_in(folder) == [
        ".github/ci.yml",
        ".hidden",
        "B",
        "a/b/c",
        "a/z",
        "a.txt",
        "b",
    ]


def test_links_devices_and_version_control_are_left_out(folder: Path) -> None:
    make(folder, "a", ".git/config", "sub/.git", "sub/b")
    (folder / "link").symlink_to("a")
    (folder / "folder").symlink_to("sub")
    (folder / "loop").symlink_to(".")
    os.mkfifo(folder / "fifo")

    assert files_in(folder) == ["a", "sub/b"]


def test_rules_of_folders_above_count_from_where_they_stand(folder: Path) -> None:
    make(folder, "x.log", "keep.log", "lib/top", "top", "out/a")
    above = [
        IgnoreFile("ws/src/", "*.log\n/src/top\nsrc/lib\n"),
        IgnoreFile("src/", "!keep.log\n/src/out/\n"),
    ]

    assert files_in(folder, Rules.above(above)) == ["keep.log", "lib/top", "top"]


def test_a_start_that_is_ignored_itself_is_looked_at(folder: Path) -> None:
    make(folder, "a", "b")

    assert files_in(folder, Rules.above([IgnoreFile("build/", "build/\n")])) == [
        "a",
        "b",
    ]


def test_odd_gitignores_do_no_harm(folder: Path) -> None:
    make(folder, "a", "b", "folder/.gitignore/x", "fifo/y", "link/z")
    (folder / ".gitignore").write_bytes(b"\xef\xbb\xbfa\n!\n\\\n[\n\xff\n\0\n")
    os.mkfifo(folder / "fifo/.gitignore")
    (folder / "link/.gitignore").symlink_to("/dev/zero")

    assert files_in(folder) == [
        ".gitignore",
        "b",
        "fifo/y",
        "folder/.gitignore/x",
        "link/z",
    ]


def test_very_deep_folders_are_not_entered(folder: Path) -> None:
    deep = folder
    for _ in range(MOST_DEEP + 10):
        deep = deep / "d"
    deep.mkdir(parents=True)
    make(folder, "d/a", "d/" * (MOST_DEEP - 1) + "last", "d/" * MOST_DEEP + "beyond")

    assert files_in(folder) == ["d/a", "d/" * (MOST_DEEP - 1) + "last"]


def test_a_found_file_that_became_a_link_is_not_opened(folder: Path) -> None:
    make(folder, "a", "b/c")
    (folder / "a").unlink()
    (folder / "a").symlink_to("/etc/passwd")
    (folder / "b/c").unlink()
    (folder / "b").rmdir()
    (folder / "b").symlink_to("/etc")

    with opened(folder) as fd:
        for path in ("a", "b/passwd"):
            with pytest.raises(OSError, match=r"."):
                open_found(fd, path)


LINES = st.sampled_from(
    [
        "a",
        "/a",
        "a/",
        "*",
        "!a",
        "!a/",
        "*.x",
        "!b.x",
        "/*",
        "!/b",
        "b/**",
        "**/a",
        "**/b/a",
        "b/*.x",
        "# a",
        "",
        " ",
        "\\!",
        "a b",
        "[ab].x",
        "a/b",
        "!a/b/",
        "?",
    ]
)
IGNORES = st.dictionaries(
    st.sampled_from(["", "a/", "b/", "a/b/"]),
    st.lists(LINES, max_size=4).map("\n".join),
    max_size=3,
)


@given(IGNORES)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_walk_finds_what_git_would_add(
    tmp_path_factory: pytest.TempPathFactory, ignores: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("repo")
    names = ("a.x", "b.x", "c")
    make(folder, *(f"{f}{n}" for f in ("", "a/", "b/", "a/b/", "b/a/") for n in names))
    for path, text in ignores.items():
        (folder / path / ".gitignore").write_text(text)
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)

    found = files_in(folder)

    listed = subprocess.run(
        [*git, "ls-files", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert sorted(found) == sorted(listed.stdout.split("\0")[:-1])
