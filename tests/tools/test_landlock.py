"""A restricted thread keeps what it was left, and nothing else."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from tools.landlock import NETWORK_SINCE, READ, Access, Ruleset, abi

pytestmark = pytest.mark.skipif(
    abi() == 0 and bool(os.environ.get("POD_TESTS_WITHOUT_LANDLOCK")),
    reason="no Landlock here, and POD_TESTS_WITHOUT_LANDLOCK says so",
)


def restricted(folder: Path, access: Access, act: Callable[[], object]) -> str:
    """Run *act* in a thread that keeps *access* to *folder*; how it ended."""
    said: list[str] = []

    def run() -> None:
        with Ruleset() as rules:
            fd = os.open(folder, os.O_PATH)
            rules.allow(fd, access)
            os.close(fd)
            rules.restrict_thread()
        try:
            act()
        except OSError as error:
            said.append(errno.errorcode[error.errno or 0])
        else:
            said.append("done")

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return said[0]


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "file").write_text("inside")
    (folder / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("outside")
    return folder


def test_what_is_below_the_folder_can_be_read(inside: Path) -> None:
    assert restricted(inside, READ, (inside / "file").read_text) == "done"
    assert restricted(inside, READ, lambda: list(inside.iterdir())) == "done"


def test_nothing_else_can_be_read_whatever_the_path_says(inside: Path) -> None:
    for path in (
        inside.parent / "secret",
        inside / "out",
        inside / ".." / "secret",
        Path("/proc/self/environ"),
        Path("/etc/passwd"),
    ):
        assert restricted(inside, READ, path.read_bytes) == "EACCES", path


def test_reading_does_not_allow_to_write(inside: Path) -> None:
    file = inside / "file"
    assert restricted(inside, READ, lambda: file.write_text("x")) == "EACCES"
    assert restricted(inside, READ, file.unlink) == "EACCES"
    assert restricted(inside, READ, (inside / "new").mkdir) == "EACCES"
    assert file.read_text() == "inside"


def test_no_program_can_be_started(inside: Path) -> None:
    def start() -> None:
        subprocess.run([sys.executable, "-c", ""], check=True)

    assert restricted(inside, READ, start) == "EACCES"


@pytest.mark.skipif(abi() < NETWORK_SINCE, reason="the kernel's Landlock has no TCP")
def test_no_connection_can_be_made(inside: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def connect() -> None:
            socket.create_connection(address, timeout=5).close()

        assert restricted(inside, READ, connect) == "EACCES"


def test_the_other_threads_are_as_free_as_before(inside: Path) -> None:
    restricted(inside, READ, lambda: None)

    assert (inside.parent / "secret").read_text() == "outside"


def test_a_file_takes_a_rule_of_its_own(inside: Path) -> None:
    file = inside / "file"
    assert restricted(file, READ, file.read_text) == "done"
    assert restricted(file, READ, lambda: list(inside.iterdir())) == "EACCES"
