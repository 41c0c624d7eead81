"""The socket: whose it is, and who gets the name."""

import os
import socket as sockets
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from pod.errors import SetupError
from pod.protocol.endpoint import MOST_PATH, clear_left, listening
from pod.protocol.peer import is_allowed, peer_uid
from tests.recorded import inherited


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def start(code: str, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(path)],
        env=inherited(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def let_in(folder: Path, path: Path) -> None:
    folder.chmod(0o755)
    path.chmod(0o666)


def refusal(path: Path) -> str:
    with pytest.raises(SetupError) as caught, listening(path):
        pass
    return str(caught.value)


async def test_it_is_for_its_owner_alone_in_a_folder_for_its_owner_alone(
    short: Path,
) -> None:
    path = short / "new" / "a.sock"

    with listening(path):
        assert (mode(path.parent), mode(path)) == (0o700, 0o600)
        assert stat.S_ISSOCK(path.lstat().st_mode)


def test_nothing_is_left_of_it(short: Path) -> None:
    with listening(short / "a.sock"):
        pass

    assert list(short.iterdir()) == []


async def test_who_connects_is_known(short: Path) -> None:
    with listening(short / "a.sock") as socket:
        async with await trio.open_unix_socket(str(short / "a.sock")):
            accepted, _ = await socket.accept()
            with accepted:
                assert peer_uid(accepted) == os.geteuid()
                assert is_allowed(accepted)


def test_what_a_dead_pod_left_is_cleared_and_what_is_no_pods_stays(short: Path) -> None:
    alive, dead, foreign, file = (short / f"{name}.sock" for name in "adfn")
    for path in (dead, foreign):  # the foreign one has no lock beside it
        with sockets.socket(sockets.AF_UNIX) as left_behind:
            left_behind.bind(str(path))
    file.write_text("no socket")
    for path in (dead, file):
        path.with_name(path.name + ".lock").touch()

    with listening(alive):
        for path in (alive, dead, foreign, file, short / "none.sock"):
            clear_left(path)
        left = sorted(path.name for path in short.iterdir())

    assert left == ["a.sock", "a.sock.lock", "f.sock", "n.sock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_another_user_cannot_connect(short: Path) -> None:
    path = short / "a.sock"
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534);"
        "socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    )

    with listening(path):
        done = await trio.run_process(
            [sys.executable, "-c", code, str(path)],
            capture_stderr=True,
            check=False,
        )

    assert done.returncode == 1
    assert b"PermissionError" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_another_user_who_gets_to_the_socket_is_not_allowed(short: Path) -> None:
    path = short / "a.sock"
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534);"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
    )

    with listening(path) as socket:
        let_in(short, path)
        process = start(code, path)
        accepted, _ = await socket.accept()
        with accepted:
            allowed = is_allowed(accepted)
        process.communicate()

    assert not allowed


def test_a_folder_that_lets_others_in_is_refused(short: Path) -> None:
    short.chmod(0o755)

    assert refusal(short / "a.sock") == (
        f"{short} lets others in (mode 0755): put the socket into a folder of its"
        f" own, or chmod 700 {short}"
    )


def test_nobody_is_told_to_close_a_folder_that_is_for_all(short: Path) -> None:
    short.chmod(0o1777)

    assert refusal(short / "a.sock") == (
        f"{short} lets others in (mode 1777): put the socket into a folder of its"
        f" own ({short}/mine say: it is made)"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(short: Path) -> None:
    os.chown(short, 65534, 65534)

    assert "belongs to another user" in refusal(short / "a.sock")


def test_a_path_that_is_too_long_is_said_before_anything_is_made(
    short: Path,
) -> None:
    path = short / ("é" * 50) / "a.sock"

    said = refusal(path)

    size = len(os.fsencode(path))
    assert said.startswith(
        f"unix://{path}: its path has {size} bytes, and the system allows {MOST_PATH}:"
    )
    assert list(short.iterdir()) == []


async def test_the_longest_path_that_is_allowed_can_be_listened_on(short: Path) -> None:
    path = short / ("x" * (MOST_PATH - len(os.fsencode(short)) - 1))

    with listening(path):
        async with await trio.open_unix_socket(str(path)):
            pass


async def test_the_socket_of_a_dead_process_is_taken_over(short: Path) -> None:
    path = short / "a.sock"
    code = (
        "import os, sys; from pathlib import Path;"
        "from pod.protocol.endpoint import listening\n"
        "with listening(Path(sys.argv[1])): os._exit(9)"
    )
    start(code, path).communicate()
    assert stat.S_ISSOCK(path.lstat().st_mode)

    with listening(path) as socket:
        async with await trio.open_unix_socket(str(path)):
            (await socket.accept())[0].close()


async def test_a_live_one_is_not(short: Path) -> None:
    path = short / "a.sock"

    with listening(path) as socket:
        said = refusal(path)
        async with await trio.open_unix_socket(str(path)):
            (await socket.accept())[0].close()

    assert said == f"unix://{path}: another Pod listens on it (pod ps lists them)"


def test_nor_is_that_of_another_program(short: Path) -> None:
    path = short / "a.sock"

    with sockets.socket(sockets.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(0)
        said = refusal(path)

    assert said == f"unix://{path}: another program listens on it"
    assert path.exists()


def test_a_file_of_that_name_is_left_alone(short: Path) -> None:
    path = short / "a.sock"
    path.write_text("mine", encoding="utf-8")

    assert refusal(path) == f"unix://{path}: there is something else of that name"
    assert path.read_text(encoding="utf-8") == "mine"


def test_of_many_who_want_one_name_exactly_one_gets_it(short: Path) -> None:
    path = short / "a.sock"
    code = (
        "import sys; from pathlib import Path;"
        "from pod.errors import SetupError;"
        "from pod.protocol.endpoint import listening\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "  with listening(Path(sys.argv[1])):\n"
        "    print('mine', flush=True); sys.stdin.readline()\n"
        "except SetupError as error: print(error, flush=True)"
    )
    with sockets.socket(sockets.AF_UNIX) as dead:
        dead.bind(str(path))
    started = [start(code, path) for _ in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    said = [process.stdout.readline() for process in started if process.stdout]
    for process in started:
        process.communicate("end\n")

    lost = f"unix://{path}: another Pod listens on it (pod ps lists them)\n"
    assert sorted(said) == sorted(["mine\n", lost, lost, lost])
