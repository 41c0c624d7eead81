"""What the filter refuses, on every architecture it is made for."""

import errno
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.tools.sandbox.machine import answer, seccomp_data
from tools.sandbox.filter import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    ALLOW,
    ENOSYS,
    EPERM,
    KILL,
    REFUSED,
    WITHOUT,
    compile_filter,
    families,
)
from tools.sandbox.policy import Network, Policy
from tools.sandbox.syscalls import AARCH64, X86_64, Machine

NET = frozenset({AF_INET, AF_INET6, AF_NETLINK})
MACHINES = pytest.mark.parametrize("machine", [X86_64, AARCH64], ids=["x86", "arm"])


def said(
    machine: Machine,
    name: str,
    *arguments: int,
    allowed: frozenset[int] = NET,
) -> int:
    program = compile_filter(machine, allowed)
    data = seccomp_data(machine.numbers[name], machine.audit, arguments)
    return answer(program, data)


@MACHINES
def test_what_reaches_past_the_sandbox_is_refused(machine: Machine) -> None:
    assert {name: said(machine, name) for name in REFUSED} == dict.fromkeys(
        REFUSED, EPERM
    )
    assert {name: said(machine, name) for name in WITHOUT} == dict.fromkeys(
        WITHOUT, ENOSYS
    )


@MACHINES
@given(number=st.integers(0, 2**30 - 1))
def test_all_other_calls_are_allowed(machine: Machine, number: int) -> None:
    if number in machine.numbers.values():
        number += 1000
    program = compile_filter(machine, NET)

    assert answer(program, seccomp_data(number, machine.audit)) == ALLOW


@MACHINES
@given(audit=st.integers(0, 2**32 - 1), number=st.integers(0, 500))
def test_calls_of_another_architecture_end_the_program(
    machine: Machine, audit: int, number: int
) -> None:
    if audit == machine.audit:
        audit ^= 1
    program = compile_filter(machine, NET)

    assert answer(program, seccomp_data(number, audit)) == KILL


@given(number=st.integers(0x40000000, 0x7FFFFFFF))
def test_x32_calls_are_refused(number: int) -> None:
    program = compile_filter(X86_64, NET)

    assert answer(program, seccomp_data(number, X86_64.audit)) == EPERM


@MACHINES
@given(family=st.integers(0, 60), high=st.integers(0, 2**32 - 1))
def test_only_the_allowed_socket_families_are_there(
    machine: Machine, family: int, high: int
) -> None:
    """The kernel takes the lower half of the register; the upper may hold anything."""
    expected = ALLOW if family in NET else EPERM

    assert said(machine, "socket", high << 32 | family) == expected


@MACHINES
def test_without_any_family_no_socket_is_made(machine: Machine) -> None:
    assert said(machine, "socket", AF_INET, allowed=frozenset()) == EPERM


@MACHINES
@pytest.mark.parametrize(
    ("kind", "expected"),
    [(1, ALLOW), (5, ALLOW), (2, EPERM), (2 | 0o2000000, EPERM), (1 | 0o4000, ALLOW)],
    ids=["stream", "seqpacket", "datagram", "datagram, cloexec", "stream, nonblock"],
)
def test_pairs_of_sockets_are_there_but_for_datagrams(
    machine: Machine, kind: int, expected: int
) -> None:
    assert said(machine, "socketpair", AF_UNIX, kind) == expected
    with_unix = NET | {AF_UNIX}
    assert said(machine, "socketpair", AF_UNIX, kind, allowed=with_unix) == ALLOW
    assert said(machine, "socketpair", AF_INET, 1) == EPERM


@MACHINES
@given(flags=st.integers(0, 2**32 - 1))
def test_no_namespace_can_be_made(machine: Machine, flags: int) -> None:
    """CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET; time only by unshare."""
    new = flags & 0x7E020000

    assert said(machine, "clone", flags) == (EPERM if new else ALLOW)
    is_refused = new or flags & 0x80
    assert said(machine, "unshare", flags) == (EPERM if is_refused else ALLOW)


@MACHINES
@pytest.mark.parametrize(
    ("request_", "expected"),
    [(0x5412, EPERM), (0x541C, EPERM), (0x5401, ALLOW), (0xFFFFFFFF_00005412, EPERM)],
    ids=["TIOCSTI", "TIOCLINUX", "TCGETS", "TIOCSTI with dirt above"],
)
def test_nothing_is_typed_into_a_terminal(
    machine: Machine, request_: int, expected: int
) -> None:
    assert said(machine, "ioctl", 0, request_) == expected


@MACHINES
def test_limits_are_a_processs_own_business(machine: Machine) -> None:
    assert said(machine, "prlimit64", 0) == ALLOW
    assert said(machine, "prlimit64", 4711) == EPERM


@pytest.mark.parametrize(
    ("network", "own", "unix", "expected"),
    [
        ("none", True, False, NET),
        ("host", True, False, NET),
        ("none", False, False, frozenset()),
        ("host", False, False, NET),
        ("none", True, True, NET | {AF_UNIX}),
        ("none", False, True, frozenset({AF_UNIX})),
    ],
)
def test_the_families_follow_from_the_policy(
    network: Network, own: bool, unix: bool, expected: frozenset[int]
) -> None:
    policy = Policy(cwd="/", network=network, unix_sockets=unix)

    assert families(policy, has_own_network=own) == expected


def test_the_errors_are_those_of_this_system() -> None:
    assert (EPERM & 0xFFFF, ENOSYS & 0xFFFF) == (errno.EPERM, errno.ENOSYS)


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        (X86_64, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        (AARCH64, "/usr/include/asm-generic/unistd.h"),
    ],
    ids=["x86", "arm"],
)
def test_the_numbers_are_those_of_the_kernels_headers(
    machine: Machine, header: str
) -> None:
    if not Path(header).exists():
        pytest.skip(f"there is no {header}")
    text = Path(header).read_text()
    found = dict(
        re.findall(r"^#define __NR3?2?6?4?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    )
    known = {name: str(number) for name, number in machine.numbers.items()}

    assert {n: found[n] for n in known if n in found} == {
        n: known[n] for n in known if n in found
    }
    assert len(found.keys() & known.keys()) > 30
