"""System calls that Python has no name for. Linux alone."""

import ctypes
import os
import struct
import sys

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_INSTRUCTION_BYTES = 8


def adopt_orphans() -> None:
    """Make orphans among our descendants our children, not process 1's.

    It holds for the whole process, until its end; whoever calls this must see
    to them. Raises OSError where it cannot be done.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_from_others() -> None:
    """Keep other processes of the same user from reading our memory and environment.

    Root still can. Core dumps and debuggers of the same user are out, too.
    Raises OSError.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def drop_capabilities(capset: int) -> None:
    """Take all capabilities from the calling thread; *capset* is the call's number.

    What it starts gets them back as root, unless no_new_privs is set as well.
    """
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    nothing = bytes(24)
    _check(
        _LIBC.syscall(
            ctypes.c_long(capset), ctypes.c_char_p(header), ctypes.c_char_p(nothing)
        )
    )


def filter_thread(seccomp: int, program: bytes) -> None:
    """Put the calling thread, and all it starts, under a seccomp filter for good.

    *seccomp* is the call's number. Never call it in a thread that others will
    use. Raises OSError.
    """
    code = ctypes.create_string_buffer(program, len(program))
    length = len(program) // _INSTRUCTION_BYTES
    # struct sock_fprog: a short, padding, a pointer.
    argument = struct.pack("@HP", length, ctypes.addressof(code))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _check(
        _LIBC.syscall(
            ctypes.c_long(seccomp),
            ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
            ctypes.c_uint(0),
            ctypes.c_char_p(argument),
        )
    )


def _prctl(option: int, value: int) -> None:
    if not sys.platform.startswith("linux"):
        raise OSError("there is no prctl on this system")
    zero = ctypes.c_ulong(0)
    _check(_LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero))


def _check(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
