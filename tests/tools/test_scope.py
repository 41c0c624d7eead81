import ctypes
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tools.base import ToolError
from tools.near import near_names
from tools.openat import MOST_HOPS
from tools.scope import Opened, Scope

LIMIT = 1_000_000


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Make a workspace beside a secret, and a library that may be read only."""
    for folder in ("ws/a/b", "ws/d", "out/d", "lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ws/a/b/f").write_text("in")
    (tmp_path / "ws/d/f").write_text("in")
    (tmp_path / "out/d/f").write_text("secret")
    (tmp_path / "out/s").write_text("secret")
    (tmp_path / "lib/l.py").write_text("library")
    return tmp_path


@pytest.fixture(params=[True, False], ids=["openat2", "by hand"])
def scope(base: Path, request: pytest.FixtureRequest) -> Iterator[Scope]:
    scope = Scope(
        [base / "lib"], [base / "ws"], base / "ws", openat2=bool(request.param)
    )
    yield scope
    scope.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def read(scope: Scope, path: str | Path) -> str:
    return scope.read_bytes(str(path), max_bytes=LIMIT).decode()


def refusal(scope: Scope, path: str | Path) -> str:
    with pytest.raises(ToolError) as caught:
        scope.open_read(str(path))
    return str(caught.value)


def test_paths_count_from_cwd_or_are_absolute(scope: Scope, base: Path) -> None:
    paths = ["a/b/f", "./a//b/f", "a/../d/f", f"{base}/ws/a/b/f", "nowhere/../d/f"]

    assert [read(scope, path) for path in paths] == ["in"] * 5
    assert read(scope, "../lib/l.py") == "library"
    assert read(scope, f"/{base}/lib/../lib/l.py") == "library"


def test_links_inside_are_followed_relative_and_absolute(
    scope: Scope, base: Path
) -> None:
    links = {
        "rel": "a/b/f",
        "a/up": "../d/f",
        "abs": f"{base}/ws/a/b/f",
        "folder": f"{base}/ws/a",
        "two": "abs",
        "across": f"{base}/lib/l.py",
        "a/round": "../../ws/../ws/d",
        "dots": f"{base}/ws/a/../d/f",
    }
    for name, target in links.items():
        (base / "ws" / name).symlink_to(target)

    paths = ["rel", "a/up", "abs", "folder/b/f", "two", "folder/up", "across", "dots"]
    found = [read(scope, path) for path in paths]

    assert found == ["in", "in", "in", "in", "in", "in", "library", "in"]
    # Relative and out of the root in between: the kernel and we say no.
    assert "leads out" in refusal(scope, "a/round/f")


@pytest.mark.parametrize(
    "path",
    [
        "../out/s",
        "/etc/passwd",
        "a/../../out/s",
        "out_abs",
        "out_rel",
        "out_folder/f",
        "a/out_up/out/s",
        "proc",
        "abs_then_up",
        "zero",
    ],
)
def test_what_leads_out_is_refused_with_the_path_and_the_roots(
    scope: Scope, base: Path, path: str
) -> None:
    links = {
        "out_abs": f"{base}/out/s",
        "out_rel": "../out/s",
        "out_folder": f"{base}/out/d",
        "a/out_up": "../..",
        "proc": "/proc/self/root/etc/passwd",
        "abs_then_up": f"{base}/ws/../out/s",
        "zero": "/dev/zero",
    }
    for name, target in links.items():
        (base / "ws" / name).symlink_to(target)

    message = refusal(scope, path)

    assert "out" in message
    assert f"folders you may read: {base}/ws, {base}/lib" in message
    assert scope.shown(path) in message


def test_magic_links_are_not_followed(base: Path) -> None:
    with (base / "out/s").open() as secret:
        scope = Scope([Path(f"/proc/{os.getpid()}")], [], base)

        message = refusal(scope, f"/proc/{os.getpid()}/fd/{secret.fileno()}")

        scope.close()
    assert "out" in message


def test_roots_given_through_a_link_work_by_both_names(base: Path) -> None:
    (base / "name").symlink_to("ws")
    scope = Scope([], [base / "name"], base / "name")

    found = [read(scope, p) for p in ("d/f", base / "name/d/f", base / "ws/d/f")]

    scope.close()
    assert found == ["in", "in", "in"]


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_root_that_is_a_link_out_of_a_write_root_is_refused(
    base: Path, tmp_path: Path, kind: str
) -> None:
    """The model of an earlier run may have put it there."""
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (work / "real").mkdir(parents=True)
    elsewhere.mkdir()
    (work / "out").symlink_to(elsewhere)
    (work / "in").symlink_to("real")

    def roots(name: str) -> tuple[list[Path], list[Path]]:
        return ([work / name], [work]) if kind == "read" else ([], [work / name, work])

    Scope(*roots("in"), work).close()
    with pytest.raises(OSError, match="if that is meant") as refused:
        Scope(*roots("out"), work)

    assert (refused.value.filename, refused.value.strerror) == (
        str(work / "out"),
        (
            f"a link in {work}, which may be written, leads to {elsewhere};"
            " if that is meant, name it itself"
        ),
    )


def test_everything_may_be_readable(base: Path) -> None:
    (base / "ws/etc").symlink_to("../out/s")
    scope = Scope([Path("/")], [base / "ws"], base / "ws")

    found = (read(scope, "etc"), read(scope, base / "out/s"))

    assert found == ("secret", "secret")
    with pytest.raises(ToolError, match="folders you may write"):
        scope.write_atomic("etc", b"")
    scope.close()


def test_links_in_circles_are_refused(scope: Scope, base: Path) -> None:
    (base / "ws/x").symlink_to("y")
    (base / "ws/y").symlink_to(f"{base}/ws/x")
    (base / "ws/self").symlink_to("self/self")
    for number in range(MOST_HOPS + 5):
        (base / f"ws/l{number}").symlink_to(f"l{number + 1}")
    (base / f"ws/l{MOST_HOPS + 5}").write_text("far")

    messages = [refusal(scope, path) for path in ("x", "self", "l0", "x/f")]

    assert ["round in circles" in message for message in messages] == [True] * 4


def test_what_is_no_regular_file_is_refused_without_waiting(
    scope: Scope, base: Path
) -> None:
    os.mkfifo(base / "ws/fifo")
    folder = os.open(base / "ws", os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        # A socket's path may be 107 bytes long; pytest's are longer.
        listener.bind(f"/proc/self/fd/{folder}/socket")
    os.close(folder)

    messages = [refusal(scope, path) for path in ("fifo", "socket", "a", ".")]

    assert messages == [
        "fifo is a FIFO, not a regular file",
        "socket is no regular file (a socket or a device)",
        "a is a folder: use glob to list what is in it",
        ". is a folder: use glob to list what is in it",
    ]


def test_devices_are_refused() -> None:
    scope = Scope([Path("/dev")], [], Path("/dev"))

    messages = [refusal(scope, path) for path in ("zero", "null")]

    scope.close()
    assert messages == [
        f"{path} is a device, not a regular file" for path in ("zero", "null")
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(scope: Scope, base: Path) -> None:
    (base / "ws/d/f").chmod(0)

    assert refusal(scope, "d/f") == "d/f: Permission denied"


def test_a_missing_file_is_answered_with_what_is_there(
    scope: Scope, base: Path
) -> None:
    (base / "ws/main.py").touch()
    (base / "ws/main.pyi").touch()

    messages = [refusal(scope, p) for p in ("mian.py", "aa/b/f", "a/b/c/d", "d/f/x")]

    assert messages == [
        "no such file: mian.py. There is: main.py, main.pyi",
        "no such file: aa/b/f (. holds no aa)",
        "no such file: a/b/c/d (a/b holds no c)",
        "d/f/x: a part of this path is no folder",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "the path is empty"),
        ("a\0b", "NUL in the path"),
        ("a\ud800b", "no valid path: a\ufffdb"),
        ("x" * 300, "x" * 300 + ": File name too long"),
    ],
)
def test_a_path_that_is_none_is_refused(scope: Scope, path: str, expected: str) -> None:
    assert refusal(scope, path) == expected


@pytest.mark.parametrize(
    "path", ["a/" * 50_000, "/b/" + "a/" * 50_000, "n" * 300_000, "../" * 50_000 + "s"]
)
def test_a_path_no_kernel_takes_is_refused_at_once_and_not_repeated(
    scope: Scope, path: str
) -> None:
    started = time.monotonic()

    said = refusal(scope, path)

    assert said.startswith(f"the path is too long: {len(path):,} bytes, at most 4,096")
    assert len(said) < 400
    assert time.monotonic() - started < 1


def test_a_name_no_disk_takes_is_refused(scope: Scope) -> None:
    assert refusal(scope, "n" * 300) == f"{'n' * 300}: File name too long"


def test_many_missing_folders_are_looked_for_once_each(scope: Scope) -> None:
    """Not once for each of those below: that is 2 to the power of their number."""
    started = time.monotonic()

    assert refusal(scope, "x/" * 40 + "f") == (
        f"no such file: {'x/' * 40}f (. holds no x)"
    )
    assert refusal(scope, "x/" * 2_000 + "f").endswith("f (. holds no x)")
    assert time.monotonic() - started < 10


def test_a_file_over_the_limit_is_refused(scope: Scope) -> None:
    with pytest.raises(ToolError, match="too large for this: 2 bytes, at most 1"):
        scope.read_bytes("d/f", max_bytes=1)


def test_kind_follows_links(scope: Scope, base: Path) -> None:
    (base / "ws/link").symlink_to(f"{base}/ws/d")
    os.mkfifo(base / "ws/fifo")

    found = [scope.kind(path) for path in ("d/f", "link", ".", "fifo", "nothing")]

    assert found == ["file", "folder", "folder", "other", None]


def test_names_that_are_no_utf_8_can_be_opened(scope: Scope, base: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (base / "ws" / name).write_text("latin")

    assert read(scope, name) == "latin"
    assert scope.shown(name) == "caf\ufffd.txt"


def test_a_write_creates_and_replaces(scope: Scope, base: Path) -> None:
    created = scope.write_atomic("new.txt", b"one")
    replaced = scope.write_atomic(str(base / "ws/new.txt"), b"two")

    assert (created, replaced) == (True, False)
    assert (base / "ws/new.txt").read_bytes() == b"two"
    assert sorted(path.name for path in (base / "ws").iterdir()) == [
        "a",
        "d",
        "new.txt",
    ]


def test_a_write_keeps_the_mode_and_breaks_hard_links(scope: Scope, base: Path) -> None:
    file, other = base / "ws/d/f", base / "out/other name"
    file.chmod(0o754)
    os.link(file, other)

    scope.write_atomic("d/f", b"new")

    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o754)
    assert other.read_text() == "in"


def test_a_write_goes_through_a_link_and_leaves_it(scope: Scope, base: Path) -> None:
    (base / "ws/link").symlink_to("d/f")
    (base / "ws/dangling").symlink_to(f"{base}/ws/d/made")

    scope.write_atomic("link", b"new")
    scope.write_atomic("dangling", b"made")

    assert (base / "ws/link").is_symlink()
    assert (base / "ws/d/f").read_text() == "new"
    assert (base / "ws/d/made").read_text() == "made"


def test_folders_are_made_on_request_only(scope: Scope, base: Path) -> None:
    with pytest.raises(ToolError, match="no such file: n/e/w"):
        scope.write_atomic("n/e/w", b"x")

    scope.write_atomic("n/e/w", b"x", make_folders=True)

    assert (base / "ws/n/e/w").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("../out/new", "out/new lies outside of the folders you may write"),
        ("../lib/l.py", "folders you may write"),
        ("gone/new", "leads out of the folders you may write"),
        ("to_lib", "lies outside of the folders you may write"),
        ("a", "a is a folder"),
        (".", "is a folder"),
        ("fifo", "fifo is a FIFO"),
        ("d/f/new", "no folder"),
    ],
)
def test_a_write_elsewhere_is_refused(
    scope: Scope, base: Path, path: str, expected: str
) -> None:
    os.mkfifo(base / "ws/fifo")
    (base / "ws/gone").symlink_to("../out")
    (base / "ws/to_lib").symlink_to(f"{base}/lib/l.py")

    with pytest.raises(ToolError) as caught:
        scope.write_atomic(path, b"x", make_folders=True)

    assert expected in str(caught.value)
    assert (base / "lib/l.py").read_text() == "library"
    assert sorted(p.name for p in (base / "out").iterdir()) == ["d", "s"]


def test_a_write_with_a_stamp_needs_the_file_unchanged(
    scope: Scope, base: Path
) -> None:
    opened = scope.open_read("d/f")
    opened.file.close()
    (base / "ws/d/f").write_text("longer")

    with pytest.raises(ToolError, match="d/f was changed meanwhile: read it again"):
        scope.write_atomic("d/f", b"x", stamp=opened.stamp)

    assert (base / "ws/d/f").read_text() == "longer"


def test_a_write_with_a_stamp_makes_no_file_anew(scope: Scope, base: Path) -> None:
    opened = scope.open_read("d/f")
    opened.file.close()
    (base / "ws/d/f").unlink()

    with pytest.raises(ToolError, match="d/f was changed meanwhile: read it again"):
        scope.write_atomic("d/f", b"x", stamp=opened.stamp)

    assert not (base / "ws/d/f").exists()


def test_a_failed_write_leaves_nothing_behind(scope: Scope, base: Path) -> None:
    (base / "ws/full").mkdir()
    (base / "ws/full/f").mkdir()

    with pytest.raises(ToolError):
        scope.write_atomic("full/f", b"x")

    assert [path.name for path in (base / "ws/full").iterdir()] == ["f"]


def test_descriptors_are_closed(scope: Scope, base: Path) -> None:
    (base / "ws/x").symlink_to("x")
    before = open_descriptors()

    for path in ("a/b/f", "x", "../out/s", "a", "nothing/at/all"):
        try:
            scope.read_bytes(path, max_bytes=LIMIT)
        except ToolError:
            continue
    scope.write_atomic("a/b/f", b"x")
    scope.kind("a/b/f")

    assert open_descriptors() == before


PARTS = st.sampled_from(
    ["a", "b", "d", "f", "..", ".", "", "up", "top", "out", "s", "ws", "in", "abs"]
)


@given(st.lists(PARTS, max_size=8).map("/".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_reads_the_secret(scope: Scope, base: Path, path: str) -> None:
    links = {
        "a/up": "..",
        "top": "../..",
        "a/b/out": f"{base}/out",
        "abs": "/",
        "in": "a/b",
    }
    for name, target in links.items():
        if not (base / "ws" / name).is_symlink():
            (base / "ws" / name).symlink_to(target)

    try:
        found = read(scope, path)
    except ToolError as error:
        found = str(error)

    assert found != "secret"


ATTACK = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
a, b = (os.fsencode(path) for path in sys.argv[1:3])
print("go", flush=True)
while True:
    libc.renameat2(-100, a, -100, b, 2)
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "renameat2"), reason="needs renameat2"
)
def test_nothing_gets_out_while_a_folder_and_a_link_change_places(
    scope: Scope, base: Path
) -> None:
    (base / "ws/link").symlink_to(base / "out/d")
    command = [sys.executable, "-c", ATTACK, f"{base}/ws/d", f"{base}/ws/link"]
    reads: list[str] = []

    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        attacker.stdout.readline()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            for path in ("d/f", "a/../d/f"):
                try:
                    reads.append(read(scope, path))
                except ToolError:
                    reads.append("refused")
            try:
                scope.write_atomic("d/f", b"in")
            except ToolError:
                continue
        attacker.kill()

    # Both outcomes were seen, so the race was on.
    assert set(reads) == {"in", "refused"}
    assert (base / "out/d/f").read_text() == "secret"
    assert [path.name for path in (base / "out/d").iterdir()] == ["f"]


def test_near_names_are_found_by_case_stem_and_likeness() -> None:
    names = ["README.md", "readme.rst", "main.rs", ".env", ".git", "setup.cfg"]

    found = [
        near_names(name, names) for name in ("readme.md", "main.py", ".envv", "zz")
    ]

    assert found == [["README.md", "readme.rst"], ["main.rs"], [".env"], []]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc")
def test_the_environment_and_the_memory_of_programs_are_not_read() -> None:
    scope = Scope([Path("/")], [], Path("/"))
    names = ("environ", "mem", "auxv")

    refused = [refusal(scope, f"/proc/self/{name}") for name in names]

    assert all("there may be keys in it" in text for text in refused), refused
    assert read(scope, "/proc/self/status").startswith("Name:")
    scope.close()


def test_what_is_found_may_be_a_folder_or_a_file_in_one_open(
    scope: Scope, base: Path
) -> None:
    opened = scope.open_either("a/b/f")
    folder = scope.open_either("a/b")

    assert isinstance(opened, Opened)
    assert isinstance(folder, int)
    assert os.listdir(folder) == ["f"]  # noqa: PTH208  a descriptor
    opened.file.close()
    os.close(folder)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\tb", "[Auto-read file: x]"])
def test_odd_names_are_opened_and_shown_in_one_line(
    scope: Scope, base: Path, name: str
) -> None:
    (base / "ws" / name).write_text("in")

    assert read(scope, name) == "in"
    shown = scope.shown(name)
    assert "\n" not in shown
    assert "\x1b" not in shown
