"""A sandbox that is open: folders of its own, and commands started in it."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from tools.landlock import Access
from tools.launch import Order, Started, Supervisor, limits, popen, under
from tools.offspring import put_stamp
from tools.programs import find_program
from tools.sandbox import git
from tools.sandbox.bubblewrap import Private, arguments, environment_arguments, mounts
from tools.sandbox.filter import compile_filter, families
from tools.sandbox.folders import OwnFolders, make_within
from tools.sandbox.groups import joining, make_group
from tools.sandbox.kernel import drop_capabilities, filter_thread
from tools.sandbox.pinned import Pinned, takes_descriptors
from tools.sandbox.policy import (
    DEFAULT_PROCESSES,
    Pins,
    Policy,
    Surroundings,
    Tier,
    is_within,
)
from tools.sandbox.rules import granted, ruleset_of
from tools.sandbox.seatbelt import profile
from tools.sandbox.syscalls import machine_of
from tools.sandbox.threads import in_lasting_thread, in_thread

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
        self._machine = machine_of(os.uname().machine)
        self._pins = Pinned(box.policy.write)
        self._own = OwnFolders()
        self._group = make_group(box.policy.memory, box.policy.processes)
        self._granted = self._grant()
        self._placed: Pins | None = None
        self._introduce()

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
                own = {"HOME": str(self._own.home), "TMPDIR": str(self._own.tmp)}
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
                return in_thread(lambda: self._restricted(limited))
            case "seatbelt":
                private = (str(self._own.home), str(self._own.tmp))
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

    def _grant(self) -> list[tuple[str, Access]]:
        """Return what Landlock leaves to commands; looked up once."""
        if self._box.tier != "landlock":
            return []
        private = (str(self._own.home), str(self._own.tmp))
        places = granted(self._box.policy, self._box.surroundings, private)
        doors = self._group.doors if self._group else ()
        write = Access.WRITE_FILE | Access.TRUNCATE
        return places + [(door, write) for door in doors]

    def _in_bubblewrap(self, order: Order) -> Started:
        bash = _bash(order.env, self._box.policy.write)
        filter_ = self._filter
        with ExitStack() as passed, ExitStack() as kept:
            held = self._pins.take()
            kept.callback(self._pins.release)
            if held.pins != self._placed:  # they are held from the first command on
                self._make_places(held.pins)
                self._placed = held.pins
            said_by, status = _pipe(kept, passed)
            control, held_by = reversed(_pipe(passed, kept))
            filter_fd = _memory_file(filter_)
            passed.callback(os.close, filter_fd)
            environment_fd = _memory_file(environment_arguments(order.env))
            passed.callback(os.close, environment_fd)
            descriptors = held.descriptors if takes_descriptors(self._box.bwrap) else {}
            argv = (
                self._box.bwrap,
                *("--args", str(environment_fd)),
                *arguments(
                    self._box.policy,
                    self._box.surroundings,
                    self._private(),
                    held.pins,
                    seccomp=filter_fd,
                    descriptors=descriptors,
                ),
                *(bash, "-c", self._shell(order, status, held_by), "bash"),
                *order.argv,
            )
            if self._group is not None:
                words = f'{joining(self._group.doors)}exec "$@"'
                argv = (bash, "-c", words, bash, *argv)
            # What a command is told by its environment (LD_LIBRARY_PATH, BASH_ENV)
            # must not tell those outside which code to run: it goes in another way.
            command = replace(order, argv=argv, cwd=Path("/"), env={})
            passing = (status, held_by, filter_fd, environment_fd)
            numbers = (*passing, *descriptors.values())
            # In a thread that stays: bubblewrap ends with the one that began it.
            process = in_lasting_thread(lambda: popen(command, numbers))
            put_stamp(process.pid, order.stamp)
            kept.pop_all()
            return Started(process, Supervisor(said_by, control))

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
        numbers, filter_ = self._machine.numbers, self._filter
        with ruleset_of(self._granted, network=network) as ruleset:
            if os.geteuid() == 0:
                drop_capabilities(numbers["capset"])
            ruleset.restrict_thread()
            filter_thread(numbers["seccomp"], filter_)
            return Started(popen(order))

    @cached_property
    def _filter(self) -> bytes:
        """The seccomp filter. Raises OSError."""
        if self._machine is None:
            raise OSError("there is no filter for this kind of processor")
        own_network = self._box.tier == "bwrap"
        allowed = families(self._box.policy, has_own_network=own_network)
        return compile_filter(self._machine, allowed)

    def _make_places(self, pins: Pins) -> None:
        """Make the folders of the private ones in which something is mounted."""
        private = self._private()
        for mount in mounts(self.policy, self._box.surroundings, private, pins):
            if mount.kind == "bind":
                for own in (private.tmp, private.home):
                    if is_within(mount.source, own):
                        make_within(own, mount.source.removeprefix(own))

    def _private(self) -> Private:
        return Private(str(self._own.tmp), str(self._own.home))

    def _introduce(self) -> None:
        """Tell git in the private home who commits; the home outside is not seen."""
        if self._box.tier == "off":
            return
        text = git.identity(self._box.surroundings.home, self.policy.write)
        if text:
            (self._own.home / ".gitconfig").write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Remove its folders. Blocks."""
        self._pins.close()
        self._own.close()
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


def _bash(env: Mapping[str, str], written: tuple[str, ...]) -> str:
    path = env.get("PATH", os.defpath)
    found = find_program("bash", outside=written, path=path)
    if found is None:
        raise FileNotFoundError("a sandboxed command needs bash")
    return found


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Make a pipe whose ends are closed with these stacks."""
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("pod")
    try:
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
