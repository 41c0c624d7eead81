"""Ways out of a sandbox, each as a command and a look at whether it got out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Lab(Protocol):
    """What an attempt is made against, and what it has done there."""

    @property
    def hidden(self) -> Path:
        """A folder the command must not see."""

    @property
    def shown(self) -> Path:
        """A folder it may read."""

    @property
    def work(self) -> Path:
        """The folder it may write."""

    def was_reached(self, name: str) -> bool:
        """Whether the server called *name* heard of anybody."""


class Attempt(Struct, frozen=True):
    """One row of the matrix: *command* for bash, with {names} that the lab fills in.

    *depends* says that without a sandbox it may fail all the same: by the
    kernel's settings, or in a container.
    """

    row: str
    command: str
    escaped: Callable[[Lab, str], bool]
    depends: bool = False


def says(word: str) -> Callable[[Lab, str], bool]:
    return lambda lab, output: word in output


def is_there(*path: str) -> Callable[[Lab, str], bool]:
    return lambda lab, output: Path(getattr(lab, path[0]), *path[1:]).exists()


def is_changed(lab: Lab, output: str) -> bool:
    return (lab.shown / "canary").read_text() != "ok"


def heard(name: str) -> Callable[[Lab, str], bool]:
    return lambda lab, output: lab.was_reached(name)


def call(number: str, *arguments: str) -> str:
    """Return a command that makes a system call and prints its errno, 0 for none."""
    given = ", ".join(arguments)
    return (
        '{python} -c "import ctypes; c = ctypes.CDLL(None, use_errno=True);'
        f" r = c.syscall({number}, {given});"
        " print('errno', ctypes.get_errno() if r < 0 else 0)\""
    )


SOCKET = "import socket; s = socket.socket(socket.AF_{family}, socket.SOCK_{kind})"
UNIX = SOCKET.format(family="UNIX", kind="STREAM")

ATTEMPTS: tuple[Attempt, ...] = (
    Attempt(
        "write a file outside of the write roots",
        "echo x > {shown}/canary",
        is_changed,
    ),
    Attempt(
        "write outside through a symbolic link in the workspace",
        "echo x > link/canary",
        is_changed,
    ),
    Attempt(
        "write outside through `..` of /proc/self/cwd",
        "echo x > /proc/self/cwd/../shown/canary",
        is_changed,
    ),
    Attempt(
        "write outside through /proc/self/root",
        "echo x > /proc/self/root{shown}/canary",
        is_changed,
    ),
    Attempt(
        "write outside through /proc/PID/root of another process",
        "echo x > /proc/{victim}/root{shown}/canary",
        is_changed,
        depends=True,
    ),
    Attempt(
        "make a hard link to a file outside, and write it",
        "ln {shown}/canary mine && echo x > mine",
        is_changed,
    ),
    Attempt(
        "move a file out of the workspace",
        "echo x > moved; mv moved {shown}/moved",
        is_there("shown", "moved"),
    ),
    Attempt(
        "make a folder outside",
        "mkdir {shown}/made",
        is_there("shown", "made"),
    ),
    Attempt(
        "empty a file outside (truncate)",
        "truncate -s 0 {shown}/canary",
        is_changed,
    ),
    Attempt(
        "change the mode of a file outside",
        "chmod 0123 {shown}/canary",
        lambda lab, output: (lab.shown / "canary").stat().st_mode & 0o777 == 0o123,
    ),
    Attempt(
        "change the times of a file outside",
        "touch -d 2001-01-01 {shown}/canary",
        lambda lab, output: (lab.shown / "canary").stat().st_mtime < 1e9,
    ),
    Attempt(
        "set an extended attribute of a file outside",
        "{python} -c \"import os; os.setxattr('{shown}/canary', 'user.x', b'1');"
        " print('SET')\"",
        says("SET"),
        depends=True,
    ),
    Attempt(
        "write through a hard link that was in the workspace before",
        "echo x > linked",
        lambda lab, output: (lab.hidden / "linked").read_text() != "ok",
    ),
    Attempt(
        "read a file outside of the roots",
        "cat {hidden}/secret",
        says("hunter2"),
    ),
    Attempt(
        "read a key in the home folder",
        "cat {home}/.ssh/id_rsa",
        says("hunter2"),
    ),
    Attempt(
        "see that a file outside exists",
        "test -e {hidden}/secret && echo SEEN",
        says("SEEN"),
    ),
    Attempt(
        "read the environment of the Pod's process",
        "tr '\\0' '\\n' < /proc/{pod}/environ; tr '\\0' '\\n' < /proc/$PPID/environ",
        says("sk-of-the-pod"),
    ),
    Attempt(
        "read the environment of another process of the user",
        "tr '\\0' '\\n' < /proc/{victim}/environ",
        says("sk-of-the-victim"),
    ),
    Attempt(
        "see the machine's processes",
        "grep -aq 987.65 /proc/{victim}/cmdline && echo SEEN",
        says("SEEN"),
    ),
    Attempt(
        "read the memory of another process of the user",
        "(: < /proc/{victim}/mem) && echo OPENED",
        says("OPENED"),
    ),
    Attempt(
        "attach to another process of the user (ptrace)",
        call("{ptrace}", "0x4206", "{victim}", "0", "0"),
        says("errno 0\n"),
        depends=True,
    ),
    Attempt(
        "change the limits of another process of the user",
        "prlimit --pid {victim} --cpu=999999 && echo SET",
        says("SET"),
    ),
    Attempt(
        "change the priority of another process of the user",
        # One that has root's capabilities it leaves alone.
        "renice -n 19 -p {victim} && echo SET",
        says("SET"),
        depends=True,
    ),
    Attempt(
        "reach shared memory of the user (System V)",
        '{python} -c "import ctypes; print(ctypes.CDLL(None).shmget({memory}, 0, 0))"',
        lambda lab, output: output.strip().isdigit(),
        depends=True,
    ),
    Attempt(
        "send a signal to a process outside",
        "grep -aq 987.65 /proc/{victim}/cmdline && kill -0 {victim} && echo SENT",
        says("SENT"),
    ),
    Attempt(
        "connect to a unix socket outside",
        f"{{python}} -c \"{UNIX}; s.connect('{{shown}}/socket')\"",
        heard("unix"),
    ),
    Attempt(
        "connect to an abstract unix socket",
        f"{{python}} -c \"{UNIX}; s.connect(chr(0) + '{{abstract}}')\"",
        heard("abstract"),
    ),
    Attempt(
        "connect to a unix socket in the workspace",
        f"{{python}} -c \"{UNIX}; s.connect('socket')\"",
        heard("own"),
    ),
    Attempt(
        "connect by TCP to a server on this machine",
        "(: > /dev/tcp/127.0.0.1/{tcp}) && echo CONNECTED",
        says("CONNECTED"),
    ),
    Attempt(
        "send by UDP to a server on this machine",
        "{python} -c \"import socket; socket.socket(2, 2).sendto(b'x',"
        " ('127.0.0.1', {udp}))\"",
        heard("udp"),
    ),
    Attempt(
        "use io_uring",
        call("425", "2", "ctypes.create_string_buffer(256)"),
        says("errno 0\n"),
        depends=True,
    ),
    Attempt(
        "make a user namespace",
        "unshare --user true && echo MADE",
        says("MADE"),
        depends=True,
    ),
    Attempt(
        "mount something",
        "mount -t tmpfs none {work}/mounted && echo MOUNTED; umount {work}/mounted",
        says("MOUNTED"),
        depends=True,
    ),
    Attempt(
        "make a device in the workspace",
        "mknod device c 1 3 && echo MADE",
        says("MADE"),
        depends=True,
    ),
    Attempt(
        "allow itself core dumps",
        "ulimit -c unlimited && echo RAISED",
        says("RAISED"),
        depends=True,
    ),
    Attempt(
        "write a setting of the kernel (/proc/sys)",
        "s=/proc/sys/vm/max_map_count; v=$(cat $s); echo $v > $s && echo WROTE",
        says("WROTE"),
        depends=True,
    ),
    Attempt(
        "read the kernel's keyring",
        call("{keyctl}", "0", "-4", "1"),
        says("errno 0\n"),
        depends=True,
    ),
    Attempt(
        "type into the terminal (TIOCSTI)",
        # Nothing is typed, it is no terminal: what counts is who says no.
        call("{ioctl}", "0", "0x5412", "ctypes.create_string_buffer(1)"),
        says("errno 25\n"),
    ),
    Attempt(
        "gain privileges by a setuid program",
        "grep NoNewPrivs /proc/self/status",
        says("NoNewPrivs:\t0"),
    ),
    Attempt(
        "write into the shared /tmp",
        "echo x > /tmp/{unique}",
        lambda lab, output: Path("/tmp", lab.hidden.parent.name + ".out").exists(),
    ),
    Attempt(
        "write into the shared /dev/shm",
        "echo x > /dev/shm/{unique}",
        lambda lab, output: Path("/dev/shm", lab.hidden.parent.name + ".out").exists(),
    ),
    Attempt(
        "write .git/hooks",
        "echo evil > .git/hooks/pre-commit",
        is_there("work", ".git/hooks/pre-commit"),
    ),
    Attempt(
        "write .git/config",
        "git config core.fsmonitor evil; echo '# evil' >> .git/config",
        lambda lab, output: "evil" in (lab.work / ".git/config").read_text(),
    ),
    Attempt(
        "move .git away",
        "mv .git .git2 && mkdir -p .git/hooks",
        is_there("work", ".git2"),
    ),
    Attempt(
        "name another folder for hooks (.git/commondir)",
        "mkdir evil; echo ../evil > .git/commondir",
        is_there("work", ".git/commondir"),
    ),
    Attempt(
        "write hooks of a nested repository",
        "mkdir -p nested/.git/hooks; echo evil > nested/.git/hooks/post-checkout",
        is_there("work", "nested/.git/hooks/post-checkout"),
    ),
    Attempt(
        "make a file that other programs run (.envrc)",
        "echo evil > .envrc",
        is_there("work", ".envrc"),
    ),
    Attempt(
        "leave a process behind",
        "sleep {left} & disown; (sleep {left} &)",
        says("LEFT BEHIND"),
    ),
    Attempt(
        "leave a process behind (setsid, empty environment)",
        "setsid env -i setsid bash -c '(sleep {left} >/dev/null 2>&1 </dev/null &)'",
        says("LEFT BEHIND"),
    ),
    Attempt(
        "keep the call waiting by a process that holds the pipe",
        "sleep {left} & echo begun",
        says("WAITED"),
    ),
)
"""Undone in between: the lab builds its folders anew for each."""

BY_ROW: Mapping[str, Attempt] = {attempt.row: attempt for attempt in ATTEMPTS}
