"""A process that is killed before, or behind, its n-th call of the system."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

CALLS = frozenset(
    {
        "open",
        "write",
        "pwrite",
        "fdatasync",
        "fsync",
        "ftruncate",
        "truncate",
        "posix_fallocate",
        "rename",
        "replace",
        "link",
        "unlink",
        "mkdir",
        "flock",
    }
)
"""What changes a file system, or who may change it."""


def killed_at(number: int, action: Callable[[], object], *, behind: bool) -> bool:
    """Do *action* in a child, and kill that at its *number*-th call (from 1).

    *behind*: when the call has returned. Returns whether it came to that; an
    action that ends before, ends well or the child's traceback is in the error.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _play(number, action, write, "c_return" if behind else "c_call")
    os.close(write)
    with os.fdopen(read) as said:
        told = said.read()
    _, status = os.waitpid(child, 0)
    if told:
        raise AssertionError(told)
    return os.WIFSIGNALED(status)


def _play(number: int, action: Callable[[], object], write: int, moment: str) -> None:
    left = number

    def watch(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        if event != moment or getattr(arg, "__module__", "") not in {"posix", "fcntl"}:
            return
        if getattr(arg, "__name__", "") in CALLS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(watch)
    sys.setprofile(watch)
    code = 0
    try:
        action()
    except BaseException as error:  # noqa: BLE001  whatever it is, the parent says it
        sys.setprofile(None)
        os.write(write, repr(error).encode())
        code = 1
    finally:
        sys.setprofile(None)
        os._exit(code)
