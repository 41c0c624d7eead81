"""Which Pods run, and which one is meant."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pod.errors import SetupError
from pod.protocol.registry import (
    NoSuchPod,
    Registered,
    default_socket,
    find,
    registered,
    running,
    runtime_folder,
)
from tests.recorded import inherited


def entry(name: str, session: str, *, socket: str | None = "/s") -> Registered:
    at = f"2026-01-01T00:00:0{session[-1]}.000Z"
    return Registered(name, session, os.getpid(), socket, at, "/w")


def test_a_pod_is_listed_for_as_long_as_it_runs(tmp_path: Path) -> None:
    first, second = entry("a", "s-1"), entry("b", "s-2")

    with registered(second, tmp_path / "r"), registered(first, tmp_path / "r"):
        assert running(tmp_path / "r") == [first, second]

    assert running(tmp_path / "r") == []
    assert list((tmp_path / "r").iterdir()) == []


def test_what_a_killed_pod_left_is_cleared(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path;"
        "from pod.protocol.registry import Registered, registered\n"
        "with registered(Registered('a', 's-1', os.getpid(), None, '', '/'),"
        " Path(sys.argv[1])): os._exit(9)"
    )
    folder = tmp_path / "r"
    subprocess.run(
        [sys.executable, "-P", "-c", code, str(folder)],
        env=inherited(),
        check=False,
    )
    assert [path.name for path in folder.iterdir()] == ["s-1.json"]

    assert running(folder) == []
    assert list(folder.iterdir()) == []


def test_no_folder_means_that_none_runs(tmp_path: Path) -> None:
    assert running(tmp_path / "none") == []


def test_a_session_whose_pod_died_can_be_listed_again(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir(mode=0o700)
    (folder / "s-1.json").write_text("left over and longer than what comes", "utf-8")
    again = entry("a", "s-1")

    with registered(again, folder):
        assert running(folder) == [again]


@pytest.mark.parametrize(
    ("target", "socket"),
    [
        ("s-1", "/1"),
        ("writer", "/2"),
        ("s-2", "/2"),
        ("2", "/2"),
        ("/some/where.sock", "/some/where.sock"),
        ("unix:///some/where", "/some/where"),
    ],
)
def test_a_pod_is_meant_by_its_session_its_name_or_its_socket(
    tmp_path: Path, target: str, socket: str
) -> None:
    folder = tmp_path / "r"
    with ExitStack() as stack:
        for each in (
            entry("reader", "s-1", socket="/1"),
            entry("writer", "s-2", socket="/2"),
            entry("nobody", "s-3", socket=None),
        ):
            stack.enter_context(registered(each, folder))

        assert find(target, folder) == Path(socket)


def test_the_only_one_need_not_be_named(tmp_path: Path) -> None:
    with registered(entry("a", "s-1"), tmp_path / "r"):
        assert find(None, tmp_path / "r") == Path("/s")


def test_it_is_said_which_ones_there_are(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    with pytest.raises(NoSuchPod, match=r"^no Pod runs: start one with pod serve$"):
        find(None, folder)
    with registered(entry("a", "s-1"), folder), registered(entry("a", "s-2"), folder):
        with pytest.raises(
            NoSuchPod, match=r"^which one\? a \(s-1\), a \(s-2\): give the session$"
        ):
            find("a", folder)
        with pytest.raises(
            NoSuchPod, match=r"^no Pod 'b' runs; there is a \(s-1\), a \(s-2\)$"
        ):
            find("b", folder)


def test_the_runtime_folder_is_private_and_its_sockets_have_room(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))

    folder = runtime_folder()

    assert folder == short / "pod"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert default_socket("20261130-073825-0232") == (
        folder / "20261130-073825-0232.sock"
    )


def test_a_runtime_folder_that_others_can_look_into_is_refused(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    (short / "pod").mkdir(mode=0o755)
    (short / "pod").chmod(0o755)

    with pytest.raises(SetupError, match="lets others in"):
        runtime_folder()


def test_without_a_runtime_folder_there_is_one_of_our_own(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short / "missing"))

    assert runtime_folder() == Path(f"/tmp/pod-{os.geteuid()}")
