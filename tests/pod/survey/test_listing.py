"""Which files are chosen, whoever lists them."""

import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pod.survey.listing import (
    Listed,
    Listing,
    batches,
    list_call,
    needs_glob,
    read_listing,
    unquoted,
)
from pod.survey.look import cost_of
from pod.survey.task import Task
from pod.survey.transcript import Result


def listed(folder: Path, task: Task | None = None) -> Listing:
    """Run the listing's command in *folder*, as bash does."""
    arguments = msgspec.json.decode(list_call(task or Task()).arguments)
    command = arguments["command"]
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, check=True
    )
    assert done.stderr == b""
    listing = read_listing(Task(), Result(done.stdout.decode()), None)
    assert listing is not None
    return listing


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)


def test_files_come_by_folder_with_size_and_lines(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.py").write_text("1\n2\n")
    (tmp_path / "z.md").write_text("no end of line")
    (tmp_path / "empty").touch()

    assert listed(tmp_path) == Listing(
        files=(
            Listed("empty", 0, 0),
            Listed("z.md", 14, 0),
            Listed("b/x.py", 4, 2),
        ),
        left=(),
        total=3,
        bytes=18,
    )


def test_what_is_binary_or_generated_by_name_is_counted_and_left_out(
    tmp_path: Path,
) -> None:
    for name in ("a.PNG", "b.min.js", "uv.lock", "kept.js", "png", ".zip"):
        (tmp_path / name).touch()
    (tmp_path / ("x" * 200)).touch()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / ("ä" * 60)).touch()

    listing = listed(tmp_path)

    assert [file.path for file in listing.files] == [
        ".zip",
        "kept.js",
        "png",
        "x" * 200,
    ]
    assert listing.left == (
        ("binary by name", 1),
        ("generated", 2),
        ("very long paths", 1),
    )
    assert listing.total == 8


def test_links_and_pipes_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to(".")
    subprocess.run(["mkfifo", tmp_path / "pipe"], check=True)

    assert [file.path for file in listed(tmp_path).files] == ["file"]


def test_a_report_is_not_surveyed_itself(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in (
        "pod-report.md",
        "pod-report-2.md",
        "out/mine.md",
        "out/pod-report.md",
    ):
        (tmp_path / name).touch()

    files = listed(tmp_path, Task(report="out/mine.md")).files

    assert [file.path for file in files] == ["out/pod-report.md"]


def test_git_says_what_is_there(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("tracked.py", "new.py", "a.log", "gone.py"):
        (tmp_path / name).touch()
    git(tmp_path, "add", "tracked.py", "gone.py")
    (tmp_path / "gone.py").unlink()

    files = listed(tmp_path).files

    assert [file.path for file in files] == [".gitignore", "new.py", "tracked.py"]


def test_git_runs_no_program_that_the_folder_names(tmp_path: Path) -> None:
    git(tmp_path, "init")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/pwned; false")
    (tmp_path / "file").touch()

    assert [file.path for file in listed(tmp_path).files] == ["file"]
    assert not (tmp_path / "pwned").exists()


def test_an_ignored_folder_is_listed_where_it_is_surveyed_itself(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init")
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "made.txt").touch()

    assert [file.path for file in listed(tmp_path / "build").files] == ["made.txt"]


def test_one_of_each_kind_comes_before_the_second_of_any(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"a{number:02}.py").touch()
    for name in ("x.md", "y.md", "Makefile", "z.toml"):
        (tmp_path / name).touch()

    listing = listed(tmp_path, Task(cap=6))

    assert [file.path for file in listing.files] == [
        "Makefile",
        "a00.py",
        "a01.py",
        "x.md",
        "y.md",
        "z.toml",
    ]
    assert listing.left == (("beyond the cap", 28),)


def test_glob_leaves_out_the_same_where_there_is_no_shell(tmp_path: Path) -> None:
    names = [f"a{number:02}.py" for number in range(30)]
    names += ["x.md", "y.md", "Makefile", "z.toml", "p.png", "uv.lock", "pod-report.md"]
    for name in names:
        (tmp_path / name).touch()
    by_shell = listed(tmp_path, Task(cap=6))

    by_glob = read_listing(
        Task(cap=6),
        Result("there is no bash on this machine", is_error=True),
        Result("\n".join(sorted(names))),
    )

    assert by_glob == Listing(
        files=tuple(Listed(file.path) for file in by_shell.files),
        left=by_shell.left,
        total=by_shell.total,
        bytes=None,
    )


@pytest.mark.parametrize(
    ("text", "is_needed"),
    [
        ("by\tgit\ntotal\t9\t9\n", False),
        ("by\tgit\ntotal\t0\t0\n", True),
        ("by\tfind\ntotal\t9\t9\n", True),
        ("by\tfind\ntotal\t501\t9\n", False),
        ("[timed out after 30 s]", True),
    ],
)
def test_glob_is_asked_where_it_can_add_something(text: str, is_needed: bool) -> None:
    assert needs_glob(Result(text)) is is_needed


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        max_size=20,
    )
)
def test_what_bash_has_quoted_is_read_back(names: list[str]) -> None:
    script = 'for name; do printf "%q\\0" "$name"; done'
    for locale in ("C", "C.UTF-8"):
        done = subprocess.run(
            ["bash", "-c", script, "bash", *names],
            env={"LC_ALL": locale},
            capture_output=True,
            check=True,
        )
        words = done.stdout.decode().split("\0")[:-1]
        assert [unquoted(word) for word in words] == names


def test_a_batch_is_small_in_bytes_too() -> None:
    files = [Listed(str(number), 4_000) for number in range(10)]

    assert len(batches(files, 8, 30_000, cost_of)) == 7
    assert len(batches(files, 8, 100_000, cost_of)) == 8
    assert len(batches([Listed("huge", 10**9)], 8, 1_000, cost_of)) == 1
    assert batches([], 8, 30_000, cost_of) == []


@pytest.mark.parametrize(
    ("file", "cost"),
    [
        (Listed("small", 4_000, 100), 4_000),
        (Listed("its beginning", 10_000, 300), 6_000 + 4_000),
        (Listed("short lines", 50_000, 1_999), 6_000 + 200 * 30),
        (Listed("long lines", 400_000, 400), 6_000 + 200 * 400),
        (Listed("not searched", 10**9), 6_000),
        (Listed("unknown"), 3_000),
    ],
)
def test_what_is_found_in_a_long_file_counts_too(file: Listed, cost: int) -> None:
    assert cost_of(file) == cost
