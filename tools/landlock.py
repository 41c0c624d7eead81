"""Landlock: a thread gives up, for good, what it does not need of the file system.

The kernel checks when a file is opened, not when it is read: a descriptor that
was opened before, or by another thread, stays as it is. A thread that is
restricted, and every process and thread it starts, can only be restricted
further. See landlock(7) and <linux/landlock.h>; the system calls have the same
numbers on every architecture.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from enum import IntFlag
from types import TracebackType
from typing import Self

_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38


class Access(IntFlag):
    """What may be done below a folder (LANDLOCK_ACCESS_FS_*)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Access.READ_FILE | Access.READ_DIR
RUN = READ | Access.EXECUTE
ALL = Access((1 << 16) - 1)

_OF_FILES = (
    Access.EXECUTE
    | Access.WRITE_FILE
    | Access.READ_FILE
    | Access.TRUNCATE
    | Access.IOCTL_DEV
)
"""What a rule for something that is no folder may hold."""

_SINCE = {Access.REFER: 2, Access.TRUNCATE: 3, Access.IOCTL_DEV: 5}
"""The ABI version that brought it; the others are in the first."""

NETWORK_SINCE = 4
SCOPES_SINCE = 6
_TCP = 0b11
"""Binding and connecting (LANDLOCK_ACCESS_NET_*)."""
_SCOPES = 0b11
"""Abstract unix sockets and signals to processes outside (LANDLOCK_SCOPE_*)."""


def abi() -> int:
    """Return the version of Landlock that is in force; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return _call(
            _CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)
        )
    except OSError:
        return 0


class Ruleset:
    """What a thread keeps; all else is denied once it is restricted.

    TCP, abstract unix sockets and signals to the outside are denied, too, where
    the kernel knows how (ABI 4, 6), unless *network* and *signals* keep them.
    UDP and unix sockets with a path are not covered.
    """

    def __init__(self, *, network: bool = False, signals: bool = False) -> None:
        """Begin with nothing allowed. Raises OSError where there is no Landlock."""
        version = abi()
        if version == 0:
            raise OSError(errno.ENOSYS, "there is no Landlock here")
        self.handled = Access(ALL)
        for access, since in _SINCE.items():
            if version < since:
                self.handled &= ~access
        # A kernel takes the struct of its own ABI or a shorter one.
        fields = [int(self.handled)]
        if version >= NETWORK_SINCE:
            fields.append(0 if network else _TCP)
        if version >= SCOPES_SINCE:
            fields.append(0 if signals else _SCOPES)
        attributes = struct.pack(f"={len(fields)}Q", *fields)
        self._fd = _call(
            _CREATE_RULESET,
            ctypes.c_char_p(attributes),
            ctypes.c_size_t(len(attributes)),
            ctypes.c_uint32(0),
        )
        os.set_inheritable(self._fd, False)

    def allow(self, folder: int, access: Access) -> None:
        """Keep *access* to what lies below the descriptor *folder*, a file's to it.

        What this kernel does not know of, or a file cannot have, is left out.
        O_PATH is enough for the descriptor. Raises OSError.
        """
        access &= self.handled
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            access &= _OF_FILES
        # struct landlock_path_beneath_attr is packed.
        beneath = struct.pack("=Qi", int(access), folder)
        _call(
            _ADD_RULE,
            ctypes.c_int(self._fd),
            ctypes.c_int(_PATH_BENEATH),
            ctypes.c_char_p(beneath),
            ctypes.c_uint32(0),
        )

    def restrict_thread(self) -> None:
        """Restrict the calling thread, and what it starts, for the rest of its life.

        It cannot gain privileges any more, either. Never call it in a thread
        that others will use: a pool's, the main one. What the thread has to
        import must be imported before. Raises OSError.
        """
        if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), "no_new_privs")
        _call(_RESTRICT_SELF, ctypes.c_int(self._fd), ctypes.c_uint32(0))

    def close(self) -> None:
        """Let go of the ruleset; threads that it restricts stay restricted."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _call(number: int, *arguments: object) -> int:
    result: int = _LIBC.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "landlock")
    return result


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
