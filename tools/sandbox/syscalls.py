"""Numbers of system calls, as <asm/unistd.h> has them on each architecture."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

_EVERYWHERE = {
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "open_tree_attr": 467,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
}
"""Since 2019 a new call has the same number everywhere."""


class Machine(Struct, frozen=True):
    """One architecture: its AUDIT_ARCH_* value and its numbers.

    *foreign_from* is where the numbers of a second ABI begin, if it has one.
    """

    audit: int
    numbers: Mapping[str, int]
    foreign_from: int | None = None


X86_64 = Machine(
    audit=0xC000003E,
    foreign_from=0x40000000,  # __X32_SYSCALL_BIT
    numbers={
        **_EVERYWHERE,
        "ioctl": 16,
        "socket": 41,
        "socketpair": 53,
        "clone": 56,
        "ptrace": 101,
        "syslog": 103,
        "capset": 126,
        "pivot_root": 155,
        "acct": 163,
        "mount": 165,
        "umount2": 166,
        "swapon": 167,
        "swapoff": 168,
        "reboot": 169,
        "init_module": 175,
        "delete_module": 176,
        "quotactl": 179,
        "kexec_load": 246,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "unshare": 272,
        "perf_event_open": 298,
        "fanotify_init": 300,
        "open_by_handle_at": 304,
        "prlimit64": 302,
        "setns": 308,
        "finit_module": 313,
        "seccomp": 317,
        "kexec_file_load": 320,
        "bpf": 321,
        "userfaultfd": 323,
    },
)

AARCH64 = Machine(
    audit=0xC00000B7,
    numbers={
        **_EVERYWHERE,
        "ioctl": 29,
        "umount2": 39,
        "mount": 40,
        "pivot_root": 41,
        "quotactl": 60,
        "acct": 89,
        "capset": 91,
        "unshare": 97,
        "kexec_load": 104,
        "init_module": 105,
        "delete_module": 106,
        "syslog": 116,
        "ptrace": 117,
        "reboot": 142,
        "socket": 198,
        "socketpair": 199,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "clone": 220,
        "swapon": 224,
        "swapoff": 225,
        "perf_event_open": 241,
        "fanotify_init": 262,
        "prlimit64": 261,
        "open_by_handle_at": 265,
        "setns": 268,
        "finit_module": 273,
        "seccomp": 277,
        "bpf": 280,
        "userfaultfd": 282,
        "kexec_file_load": 294,
    },
)

MACHINES: Mapping[Literal["x86_64", "aarch64"], Machine] = {
    "x86_64": X86_64,
    "aarch64": AARCH64,
}


def machine_of(name: str) -> Machine | None:
    """Return the architecture that ``uname -m`` calls *name*, if it is known here."""
    match name:
        case "x86_64" | "aarch64":
            return MACHINES[name]
        case _:
            return None
