"""A sandbox that is open: folders of its own, and commands started in it."""

import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from tools.landlock import Access
from tools.launch import Order, Started, Supervisor, limits, popen, under
from tools.offspring import put_stamp
from tools.programs import find_program
from tools.sandbox import git
from tools.sandbox.bubblewrap import Private, arguments
from tools.sandbox.filter import compile_filter, families
from tools.sandbox.groups import joining, make_group
from tools.sandbox.kernel import drop_capabilities, filter_thread
from tools.sandbox.policy import DEFAULT_PROCESSES, Pins, Policy, Surroundings, Tier
from tools.sandbox.rules import granted, ruleset_of
from tools.sandbox.seatbelt import profile
from tools.sandbox.syscalls import machine_of

PREFIX = "pod-box-"
YOUNG = 60.0
"""Seconds in which a folder may not be locked yet."""

SHELL = """\
trap : TERM INT HUP
printf s >&{status}
{limits}
exec {errors}>&2 2>/dev/null
"$@" 2>&{errors} {errors}>&- {status}>&- {control}<&-
printf '%s\\n' $? >&{status}
read -r _ <&{control}
"""
"""What stands between the sandbox and the command; see launch.Supervisor.

It outlives a request to end, which the command gets too: traps are not
inherited. What it says itself (that a child was killed) nobody needs.
"""


class Box(Struct, frozen=True):
    """A sandbox as it was chosen: the *tier*, and what it is made of.

    *bwrap* is bubblewrap's path, for that tier.
    """

    tier: Tier
    policy: Policy
    surroundings: Surroundings
    bwrap: str = ""

    def open(self) -> "OpenBox":
        """Make its folders. Raises OSError."""
        return OpenBox(self)


class OpenBox:
    """Commands can be started in it until it is closed. Its folders go with it."""

    def __init__(self, box: Box) -> None:
        self._box = box
        sweep()
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        # For as long as we are there, whatever ends us.
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._tmp = self._folder / "tmp"
        self._home = self._folder / "home"
        self._tmp.mkdir(0o700)
        self._home.mkdir(0o700)
        self._introduce()
        self._pins = _Pinned(box.policy.write)
        self._machine = machine_of(os.uname().machine)
        private = (str(self._home), str(self._tmp))
        self._granted = (
            granted(box.policy, box.surroundings, private)
            if box.tier == "landlock"
            else []
        )
        self._group = make_group(box.policy.memory, box.policy.processes)
        if self._group is not None:
            write = Access.WRITE_FILE | Access.TRUNCATE
            self._granted += [(door, write) for door in self._group.doors]

    @property
    def tier(self) -> Tier:
        return self._box.tier

    @property
    def policy(self) -> Policy:
        return self._box.policy

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return *inherited* so that it fits what a command sees."""
        match self._box.tier:
            case "off":
                return dict(inherited)
            case "bwrap":
                return {**inherited, "TMPDIR": "/tmp"}
            case "landlock" | "seatbelt":
                own = {"HOME": str(self._home), "TMPDIR": str(self._tmp)}
                # The real home is where rustup's programs look for the others.
                rustup = f"{self._box.surroundings.home}/.rustup"
                if rustup in self._box.surroundings.programs:
                    own["RUSTUP_HOME"] = rustup
                return {**inherited, **own}

    def start(self, order: Order) -> Started:
        """Start a command, held to the policy. Raises OSError."""
        match self._box.tier:
            case "off":
                return Started(popen(under(self._limits(order), order)))
            case "bwrap":
                return self._in_bubblewrap(order)
            case "landlock":
                limited = under(self._limits(order), order)
                return _in_thread(lambda: self._restricted(limited))
            case "seatbelt":
                private = (str(self._home), str(self._tmp))
                said = profile(self._box.policy, self._box.surroundings, private)
                limited = under(self._limits(order), order)
                argv = ("/usr/bin/sandbox-exec", "-p", said, *limited.argv)
                return Started(popen(replace(limited, argv=argv)))

    def ended(self) -> tuple[str, ...]:
        """Put right what a command must not leave behind; say what that was."""
        if self._box.tier != "bwrap":
            return ()
        return tuple(
            f"{path} was moved to {Path(path).name}.refused-…: git would take hooks"
            " or settings from it"
            for path in self._pins.release()
        )

    def _limits(self, order: Order) -> str:
        """Return the words that limit a command, for a shell that becomes it."""
        policy = self._box.policy
        if self._group is None:
            return limits(order.stamp, processes=policy.processes, memory=policy.memory)
        return f"{joining(self._group.doors)}{limits(order.stamp)}"

    def _in_bubblewrap(self, order: Order) -> Started:
        said_by, status = os.pipe()
        held_by, control = os.pipe()
        filter_fd = _memory_file(self._filter())
        passed = (status, held_by, filter_fd)
        command = replace(
            order,
            argv=(
                self._box.bwrap,
                *arguments(
                    self._box.policy,
                    self._box.surroundings,
                    Private(str(self._tmp), str(self._home)),
                    self._pins.take(),
                    seccomp=filter_fd,
                ),
                *(
                    _bash(order.env, self.policy.write),
                    "-c",
                    self._shell(order, status, held_by),
                    "bash",
                ),
                *order.argv,
            ),
            cwd=Path("/"),
        )
        if self._group is not None:
            bash = _bash(order.env, self._box.policy.write)
            words = f'{joining(self._group.doors)}exec "$@"'
            command = replace(command, argv=(bash, "-c", words, bash, *command.argv))
        try:
            # In a thread that stays: bubblewrap ends with the one that began it.
            process = _in_lasting_thread(lambda: popen(command, passed))
            put_stamp(process.pid, order.stamp)
            return Started(process, Supervisor(said_by, control))
        except BaseException:
            os.close(said_by)
            os.close(control)
            self._pins.release()
            raise
        finally:
            for fd in passed:
                os.close(fd)

    def _shell(self, order: Order, status: int, control: int) -> str:
        policy = self._box.policy
        if self._group is not None:
            policy = replace(policy, processes=None, memory=None)
        processes = policy.processes
        # In a user namespace of its own only the command's are counted.
        if processes is None and os.geteuid() != 0:
            processes = DEFAULT_PROCESSES
        return SHELL.format(
            limits=limits(order.stamp, processes=processes, memory=policy.memory),
            status=status,
            control=control,
            errors=max(status, control) + 1,
        )

    def _restricted(self, order: Order) -> Started:
        """Restrict this thread, and start the command from it."""
        if self._machine is None:
            raise OSError("there is no filter for this kind of processor")
        network = self._box.policy.network == "host"
        numbers, filter_ = self._machine.numbers, self._filter()
        with ruleset_of(self._granted, network=network) as ruleset:
            if os.geteuid() == 0:
                drop_capabilities(numbers["capset"])
            ruleset.restrict_thread()
            filter_thread(numbers["seccomp"], filter_)
            return Started(popen(order))

    def _filter(self) -> bytes:
        if self._machine is None:
            raise OSError("there is no filter for this kind of processor")
        own_network = self._box.tier == "bwrap"
        allowed = families(self._box.policy, has_own_network=own_network)
        return compile_filter(self._machine, allowed)

    def _introduce(self) -> None:
        """Tell git in the private home who commits; the home outside is not seen."""
        if self._box.tier == "off":
            return
        text = git.identity(self._box.surroundings.home, self.policy.write)
        if text:
            (self._home / ".gitconfig").write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Remove its folders. Blocks."""
        _remove(self._folder)
        os.close(self._lock)
        if self._group is not None:
            self._group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def sweep() -> None:
    """Remove folders of sandboxes whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            is_old = time.time() - found.st_mtime > YOUNG
            if found.st_uid != os.geteuid() or not is_old:
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, onerror=_make_removable)


class _Pinned:
    """What of the repositories is pinned, the same for all commands at a time.

    While one runs nothing is looked at anew: it could put a link where a
    repository was found, and the next one would be let in there.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self._lock = Lock()
        self._running = 0
        self._pins = Pins()

    def take(self) -> Pins:
        with self._lock:
            if not self._running:
                self._pins = git.pins_of(self._folders)
            self._running += 1
            return self._pins

    def release(self) -> list[str]:
        with self._lock:
            self._running -= 1
            return git.take_away(self._pins.absent)


def _bash(env: Mapping[str, str], written: tuple[str, ...]) -> str:
    path = env.get("PATH", os.defpath)
    found = find_program("bash", outside=written, path=path)
    if found is None:
        raise FileNotFoundError("a sandboxed command needs bash")
    return found


def _in_thread(act: Callable[[], Started]) -> Started:
    """Do *act* in a thread of its own, which ends with it."""
    done: list[Started] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(act())
        except BaseException as error:  # noqa: BLE001  raised again below
            failed.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _in_lasting_thread(
    start: Callable[[], "subprocess.Popen[bytes]"],
) -> "subprocess.Popen[bytes]":
    """Start a process from a thread that lasts as long as the process."""
    answers: SimpleQueue[subprocess.Popen[bytes] | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            process = start()
        except BaseException as error:  # noqa: BLE001  raised again below
            answers.put(error)
            return
        answers.put(process)
        with suppress(ChildProcessError):  # somebody has waited for it
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    Thread(target=run, daemon=True).start()
    answer = answers.get()
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("filter")
    try:
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make_removable(function: Callable[..., object], path: str, error: object) -> None:
    """Remove what a command left read-only, or leave it where that fails, too."""
    with suppress(OSError):
        Path(path).parent.chmod(stat.S_IRWXU)
        if not Path(path).is_symlink():
            Path(path).chmod(stat.S_IRWXU)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)
