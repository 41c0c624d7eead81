"""Which Pods run on this machine, for their user alone."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from pod.errors import SetupError
from pod.exits import Exit
from pod.protocol.endpoint import (
    MOST_PATH,
    clear_left,
    private_folder,
    release_lock,
)

LONGEST = 64 * 1024
"""Bytes of one Pod's file."""


class Registered(Struct, frozen=True):
    """One Pod that runs.

    *name* is the manifest's, *socket* where it listens (None: on its standard
    streams alone), *since* when it began (RFC 3339), *others* where it listens
    besides.
    """

    name: str
    session: str
    pid: int
    socket: str | None
    since: str
    cwd: str
    others: tuple[str, ...] = ()


class NoSuchPod(Exception):
    """No Pod that runs is meant by what was given, or several are."""


def runtime_folder() -> Path:
    """Return the folder for sockets and for who runs, of mode 0700.

    ``$XDG_RUNTIME_DIR/pod`` where that is ours, else ``/tmp/pod-UID``. Raises
    SetupError where it cannot be had, or another user was there first.
    """
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    is_usable = Path(given).is_absolute() and _is_ours(Path(given))
    folder = Path(given) / "pod" if is_usable else _short_folder()
    private_folder(folder)
    return folder


def _short_folder() -> Path:
    folder = Path(f"/tmp/pod-{os.geteuid()}")
    if folder.is_symlink():
        raise SetupError(f"{folder} is a symlink: take it away, or set XDG_RUNTIME_DIR")
    return folder


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def default_socket(session: str) -> Path:
    """Return where the Pod of *session* listens unless told otherwise."""
    path = runtime_folder() / f"{session}.sock"
    if len(os.fsencode(path)) > MOST_PATH:
        folder = _short_folder()
        private_folder(folder)
        path = folder / path.name
    return path


@contextmanager
def registered(entry: Registered, folder: Path | None = None) -> Iterator[None]:
    """List *entry* among the Pods that run, for as long as the context lasts.

    The lock on its file goes with the process, however that ends. Listed before
    it listens, so that whatever a killed one leaves can be found. What dead ones
    left is cleared. Raises SetupError.
    """
    folder = _folder(folder)
    private_folder(folder)
    running(folder)
    path = folder / f"{entry.session}.json"
    fd = _own(path)
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(entry) + b"\n", 0)
        yield
    finally:
        release_lock(path, fd)


def running(folder: Path | None = None) -> list[Registered]:
    """Return the Pods that run, the oldest first.

    What dead ones left is cleared: their files here, and their sockets.
    """
    folder = _folder(folder)
    found: list[Registered] = []
    with contextlib.suppress(FileNotFoundError):
        looked = map(_look, folder.glob("*.json"))
        found += [entry for entry in looked if entry is not None]
    return sorted(found, key=lambda entry: (entry.since, entry.session))


def find(target: str | None, folder: Path | None = None) -> Path:
    """Return the socket of the Pod that *target* means.

    That is the path of a socket, a Pod's name, or a session's id or a part of
    it; None is the only Pod there is. Raises NoSuchPod.
    """
    if target is not None and (os.sep in target or target.endswith(".sock")):
        return Path(target.removeprefix("unix://"))
    pods = [entry for entry in running(folder) if entry.socket is not None]
    for is_meant in _meanings(target):
        meant = [entry for entry in pods if is_meant(entry)]
        if len(meant) > 1:
            raise NoSuchPod(f"which one? {_named(meant)}: give the session")
        if meant and meant[0].socket is not None:
            return Path(meant[0].socket)
    if target is None:
        raise NoSuchPod("no Pod runs: start one with pod serve")
    among = f"; there is {_named(pods)}" if pods else ": none runs"
    raise NoSuchPod(f"no Pod {target!r} runs{among}")


def _meanings(target: str | None) -> Iterator[Callable[[Registered], bool]]:
    if target is None:
        yield lambda entry: True
        return
    yield lambda entry: entry.session == target
    yield lambda entry: entry.name == target
    yield lambda entry: entry.session.startswith(target)
    yield lambda entry: target in entry.session


def _named(pods: list[Registered]) -> str:
    return ", ".join(f"{entry.name} ({entry.session})" for entry in pods[:10])


def _folder(folder: Path | None) -> Path:
    return runtime_folder() / "pods" if folder is None else folder


def _own(path: Path) -> int:
    """Lock the file of a Pod. Nobody else wants it for longer than a look takes."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise SetupError(
                f"{path}: cannot be made: {error.strerror}", Exit.FAILED
            ) from error
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Somebody may have taken it for a dead Pod's since it was opened.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        os.close(fd)


def _look(path: Path) -> Registered | None:
    """Return who is in *path*; nobody, and all it left is gone, where it is dead."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return msgspec.json.decode(os.pread(fd, LONGEST, 0), type=Registered)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                _clear_sockets(os.pread(fd, LONGEST, 0))
                path.unlink()
    except (OSError, msgspec.DecodeError):
        pass  # it is being written just now
    finally:
        os.close(fd)
    return None


def _clear_sockets(file: bytes) -> None:
    """Take away the sockets of a dead Pod whose *file* this is."""
    with contextlib.suppress(msgspec.DecodeError):  # it died before it had written it
        dead = msgspec.json.decode(file, type=Registered)
        for socket in (dead.socket, *dead.others):
            if socket is not None:
                clear_left(Path(socket))
