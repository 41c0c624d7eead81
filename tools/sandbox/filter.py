"""The seccomp filter: which system calls a confined command is refused.

A list of what is refused, since what programs need cannot be listed: calls
that reach past the namespaces and the file rules (unix sockets, io_uring, the
kernel's keyrings), that make further namespaces or mounts, or that only an
administrator has a use for. Debuggers work: ptrace reaches no further than the
tier lets it.
"""

import errno
from collections.abc import Iterator, Set

from tools.sandbox.bpf import And, If, Label, Load, Return, Step, Unless, assemble
from tools.sandbox.policy import Policy
from tools.sandbox.syscalls import Machine

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
"""<linux/socket.h>; netlink is how programs ask for their own interfaces."""

ALLOW = 0x7FFF0000
KILL = 0x80000000
_ERRNO = 0x00050000
EPERM = _ERRNO | errno.EPERM
ENOSYS = _ERRNO | errno.ENOSYS
"""For what programs can do without: they take the older way."""

_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24
"""Offsets in struct seccomp_data; of an argument, its lower half (little endian)."""

_NAMESPACES = 0x7E020080
"""CLONE_NEW*, as unshare takes them. 0x80 (time) is part of a signal for clone."""
_CLONE_NAMESPACES = _NAMESPACES & ~0xFF
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Putting words into a terminal's mouth."""
_SOCK_TYPE, _SOCK_DGRAM = 0xF, 2

REFUSED = (
    *("mount", "umount2", "pivot_root", "open_tree", "open_tree_attr", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "setns"),
    *("add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd"),
    *("open_by_handle_at", "fanotify_init", "pidfd_getfd", "syslog", "acct"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
    *("reboot", "swapon", "swapoff", "quotactl", "quotactl_fd"),
)
WITHOUT = ("io_uring_setup", "io_uring_enter", "io_uring_register", "clone3")
"""What is as if the kernel had none. clone3's flags are in memory, out of reach."""


def families(policy: Policy, *, has_own_network: bool) -> frozenset[int]:
    """Return the socket families (AF_*) that commands may use under *policy*.

    Where a command *has_own_network* (a namespace) the internet's are harmless;
    else they are the network. Other families (vsock, packet, bluetooth …) are never needed.
    """
    allowed = {AF_UNIX} if policy.unix_sockets else set[int]()
    if has_own_network or policy.network == "host":
        allowed |= {AF_INET, AF_INET6, AF_NETLINK}
    return frozenset(allowed)


def compile_filter(machine: Machine, allowed: Set[int]) -> bytes:
    """Return the BPF program for *machine*; *allowed* are socket families."""
    return assemble(list(_steps(machine, allowed)))


def _steps(machine: Machine, allowed: Set[int]) -> Iterator[Step]:
    number = machine.numbers
    yield Load(_ARCHITECTURE)
    # Another ABI has other numbers: 32-bit programs do not run at all.
    yield Unless("==", machine.audit, "kill")
    yield Load(_NUMBER)
    if machine.foreign_from is not None:
        yield If(">=", machine.foreign_from, "refuse")
    for name in REFUSED:
        yield If("==", number[name], "refuse")
    for name in WITHOUT:
        yield If("==", number[name], "unknown")
    yield If("==", number["clone"], "clone")
    yield If("==", number["unshare"], "unshare")
    yield If("==", number["ioctl"], "ioctl")
    yield If("==", number["prlimit64"], "prlimit")
    yield If("==", number["socket"], "socket")
    yield If("==", number["socketpair"], "socketpair")
    yield Return(ALLOW)

    yield Label("clone")
    yield Load(_FIRST)
    yield If("&", _CLONE_NAMESPACES, "refuse")
    yield Return(ALLOW)

    yield Label("unshare")
    yield Load(_FIRST)
    yield If("&", _NAMESPACES, "refuse")
    yield Return(ALLOW)

    yield Label("ioctl")
    yield Load(_SECOND)
    yield If("==", _TIOCSTI, "refuse")
    yield If("==", _TIOCLINUX, "refuse")
    yield Return(ALLOW)

    yield Label("prlimit")
    # Of its own alone: a limit of processor time kills, as a signal does.
    yield Load(_FIRST)
    yield Unless("==", 0, "refuse")
    yield Return(ALLOW)

    yield Label("socketpair")
    yield Load(_FIRST)
    yield Unless("==", AF_UNIX, "refuse")
    if AF_UNIX not in allowed:
        # Half of a pair is connected for good, but for datagrams: those can be
        # sent to any address.
        yield Load(_SECOND)
        yield And(_SOCK_TYPE)
        yield If("==", _SOCK_DGRAM, "refuse")
    yield Return(ALLOW)

    yield Label("socket")
    yield Load(_FIRST)
    for family in sorted(allowed):
        yield If("==", family, "allow")
    yield Label("refuse")
    yield Return(EPERM)
    yield Label("allow")
    yield Return(ALLOW)
    yield Label("unknown")
    yield Return(ENOSYS)
    yield Label("kill")
    yield Return(KILL)
