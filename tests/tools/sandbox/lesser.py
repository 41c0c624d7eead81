"""A machine that lets less work than this one: old kernels, containers, gVisor.

``python -m tests.tools.sandbox.lesser bwrap landlock -- pytest tests/tools`` runs a
command, and all it starts, as if the kernel knew none of the calls that these
tiers need. As root it gains privileges as ever: that is not what is taken away.
"""

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Sequence

from tools.sandbox.bpf import If, Label, Load, Return, Step, assemble
from tools.sandbox.syscalls import Machine, machine_of

_ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW
_ERRNO = 0x00050000  # SECCOMP_RET_ERRNO
_NAMESPACES = 0x7E020080  # CLONE_NEW*
_THREAD = 0x00010000  # CLONE_THREAD
_NUMBER, _AUDIT, _FIRST = 0, 4, 16  # offsets in struct seccomp_data

UNKNOWN = {
    "landlock": (444, 445, 446),
    "bwrap": (435,),  # clone3: glibc takes clone then, whose flags can be seen
    "pidfd": (424, 434),  # pidfd_send_signal, pidfd_open: gVisor has neither
    "openat2": (437,),
    "threads": (435,),
}
"""Calls that fail with ENOSYS where this is taken away; 424 and up are the same on
every architecture."""
REFUSED = ("mount", "umount2", "pivot_root", "setns")
"""Calls that fail with EPERM where user namespaces are, as Docker has it."""


def program(machine: Machine, without: Sequence[str]) -> bytes:
    """Return the filter for a machine *without* these: keys of UNKNOWN."""
    numbers = machine.numbers
    unknown = [number for name in without for number in UNKNOWN[name]]
    steps: list[Step] = [Load(_AUDIT), If("==", machine.audit, "ours")]
    steps += [Return(_ALLOW), Label("ours"), Load(_NUMBER)]
    steps += [If("==", number, "unknown") for number in unknown]
    if "bwrap" in without:
        steps += [If("==", numbers[name], "refused") for name in REFUSED]
        steps += [If("==", numbers[name], "flags") for name in ("clone", "unshare")]
    if "threads" in without:
        steps += [If("==", numbers["clone"], "thread flags")]
    steps += [Return(_ALLOW), Label("flags"), Load(_FIRST)]
    steps += [If("&", _NAMESPACES, "refused")]
    if "threads" in without:
        steps += [Label("thread flags"), Load(_FIRST), If("&", _THREAD, "too many")]
    steps += [Return(_ALLOW)]
    steps += [Label("too many"), Return(_ERRNO | errno.EAGAIN)]
    steps += [Label("refused"), Return(_ERRNO | errno.EPERM)]
    steps += [Label("unknown"), Return(_ERRNO | errno.ENOSYS)]
    return assemble(steps)


def lessen(without: Sequence[str]) -> None:
    """Take this from the calling thread and all it starts, for good.

    Raises OSError where it cannot be done.
    """
    machine = machine_of(os.uname().machine)
    if machine is None:
        raise OSError(f"there is no filter for {os.uname().machine}")
    libc = ctypes.CDLL(None, use_errno=True)
    code = program(machine, without)
    held = ctypes.create_string_buffer(code, len(code))
    argument = struct.pack("@HP", len(code) // 8, ctypes.addressof(held))
    zero = ctypes.c_ulong(0)
    # Who may, keeps setuid programs working.
    if os.geteuid() != 0:
        libc.prctl(ctypes.c_int(38), ctypes.c_ulong(1), zero, zero, zero)
    call = ctypes.c_long(machine.numbers["seccomp"])
    if libc.syscall(
        call, ctypes.c_uint(1), ctypes.c_uint(0), ctypes.c_char_p(argument)
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "seccomp")


def main(arguments: list[str]) -> None:
    """Become the command after "--" on a machine without what stands before it."""
    end = arguments.index("--")
    lessen(arguments[:end])
    os.execvp(arguments[end + 1], arguments[end + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
