"""The unix socket that a Pod listens on: private, and taken over only when dead."""

import contextlib
import fcntl
import os
import socket as sockets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from pod.errors import SetupError
from pod.exits import Exit

MOST_PATH = 103 if sys.platform == "darwin" else 107
"""Bytes of a socket's path: sun_path of <sys/un.h>, less its NUL."""
BACKLOG = 64
"""Connections that may wait to be accepted."""
LOOKS = 5
LOOK_SECONDS = 0.02
"""How often, and how far apart, a lock is tried that somebody has: who looks whether
its owner is dead has it for a moment (clear_left)."""


@contextmanager
def listening(path: Path) -> Iterator[trio.socket.SocketType]:
    """Listen on a socket of mode 0600 at *path* for as long as the context lasts.

    Whoever holds the lock beside it owns the name: a socket that a dead process
    left is taken away, one that is alive is not. Raises SetupError.
    """
    check_path(path)
    private_folder(path.parent)
    with _locked(path):
        _take_away_stale(path)
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as socket:
            with contextlib.suppress(OSError):
                os.fchmod(socket.fileno(), 0o600)  # Linux: the name is made so
            try:
                socket.bind(os.fspath(path))
                path.chmod(0o600)
                socket.listen(BACKLOG)
            except OSError as error:
                raise _refused(path, f"cannot be bound: {error.strerror}") from error
            made = path.lstat()
            socket.setblocking(False)
            try:
                yield trio.socket.from_stdlib_socket(socket)
            finally:
                with contextlib.suppress(OSError):
                    if os.path.samestat(made, path.lstat()):
                        path.unlink()


def check_path(path: Path) -> None:
    """Raise SetupError where the system has no room for the path of a socket."""
    size = len(os.fsencode(path))
    if size > MOST_PATH:
        raise _refused(
            path,
            f"its path has {size} bytes, and the system allows {MOST_PATH}:"
            " choose a shorter one, --listen unix:///run/user/1000/my.sock say",
        )
    if b"\0" in os.fsencode(path):
        raise _refused(path, "a NUL in its path")


def private_folder(folder: Path) -> None:
    """Make *folder*, of mode 0700; refuse one that others can look into.

    Raises SetupError.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise SetupError(
            f"{folder}: cannot be made: {error.strerror}", Exit.FAILED
        ) from error
    if found.st_uid != os.geteuid():
        raise SetupError(
            f"{folder} belongs to another user: a socket in it would not be yours"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077:
        # Nobody is told to close /tmp for all others.
        is_common = mode & (stat.S_ISVTX | stat.S_IWOTH)
        advice = (
            f" ({folder / 'mine'} say: it is made)"
            if is_common
            else f", or chmod 700 {folder}"
        )
        raise SetupError(
            f"{folder} lets others in (mode {mode:04o}):"
            f" put the socket into a folder of its own{advice}"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock on the name *path*. Raises SetupError where another has it."""
    lock = _lock_of(path)
    for _ in range(LOOKS):
        if (fd := take_lock(lock)) is not None:
            break
        time.sleep(LOOK_SECONDS)
    else:
        raise _refused(path, "another Pod listens on it (pod ps lists them)")
    try:
        yield
    finally:
        release_lock(lock, fd)


def clear_left(path: Path) -> None:
    """Take away what a dead Pod left of its socket *path*, its lock included.

    What is alive stays, and so does what is not a Pod's: without a lock beside
    it, or no socket.
    """
    lock = _lock_of(path)
    with contextlib.suppress(SetupError):
        fd = take_lock(lock, make=False)
        if fd is None:
            return
        try:
            _take_away_stale(path)
        finally:
            release_lock(lock, fd)


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def take_lock(path: Path, *, make: bool = True) -> int | None:
    """Lock the file *path* for this process, and *make* it where it is missing.

    Returns its descriptor; None where another process has it, or there is none
    and none is to be made. The lock goes with the process, however that ends.
    Raises SetupError.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    flags |= os.O_CREAT if make else 0
    while True:
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not make:
                return None
            raise SetupError(
                f"{path}: cannot be made: {error.strerror}", Exit.FAILED
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        # The owner before may have taken the file away since it was opened.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        os.close(fd)


def release_lock(path: Path, fd: int) -> None:
    """Take the lock's file away, and let go of it, in this order."""
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(fd)


def _take_away_stale(path: Path) -> None:
    """Take away the socket of a dead process. Raises SetupError for what is alive."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise _refused(path, "there is something else of that name")
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as trial:
        trial.setblocking(False)
        try:
            trial.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            return
        except OSError as error:  # BlockingIOError: alive, and busy
            raise _refused(path, f"something is there: {error.strerror}") from error
    raise _refused(path, "another program listens on it")


def _refused(path: Path, why: str) -> SetupError:
    return SetupError(f"unix://{path}: {why}")
