"""A cgroup for commands: what all of them together may take.

See cgroups(7). Version 2 where its controllers may be handed on, else those of
version 1; only a privileged user, or one a service manager has delegated to,
can make any.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path("/sys/fs/cgroup")
_V1_FILES = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
_V2_FILES = {"memory": "memory.max", "pids": "pids.max"}


class Group:
    """A cgroup that commands are put into; it is removed when it is closed."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders

    @property
    def doors(self) -> tuple[str, ...]:
        """The files a process writes its number to."""
        return tuple(str(folder / "cgroup.procs") for folder in self._folders)

    def close(self) -> None:
        for folder in self._folders:
            with suppress(OSError):  # something is stuck in it
                folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def make_group(memory: int | None, processes: int | None) -> Group | None:
    """Make a group for *memory* (bytes) and *processes*; None where it cannot be."""
    limits = {
        name: value
        for name, value in (("memory", memory), ("pids", processes))
        if value is not None
    }
    if not limits:
        return None
    name = f"pod-{secrets.token_hex(6)}"
    return _unified(name, limits) or _separate(name, limits)


def can_make_group() -> bool:
    """Tell whether a group for both can be made."""
    group = make_group(1 << 40, 1 << 15)
    if group is None:
        return False
    group.close()
    return True


def _unified(name: str, limits: Mapping[str, int]) -> Group | None:
    ours = dict(_memberships()).get("")
    if ours is None or not (ROOT / "cgroup.controllers").exists():
        return None
    above = ROOT / ours.lstrip("/")
    try:
        passed_on = above / "cgroup.subtree_control"
        missing = limits.keys() - set(passed_on.read_text().split())
        if missing:
            passed_on.write_text(" ".join(f"+{name}" for name in sorted(missing)))
    except OSError:
        return None
    folder = above / name
    return _made({folder: {_V2_FILES[kind]: n for kind, n in limits.items()}})


def _separate(name: str, limits: Mapping[str, int]) -> Group | None:
    ours = dict(_memberships())
    wanted: dict[Path, dict[str, int]] = {}
    for kind, value in limits.items():
        if kind not in ours:
            return None
        folder = ROOT / kind / ours[kind].lstrip("/") / name
        wanted[folder] = {_V1_FILES[kind]: value}
    return _made(wanted)


def _made(wanted: Mapping[Path, Mapping[str, int]]) -> Group | None:
    made: list[Path] = []
    try:
        for folder, values in wanted.items():
            folder.mkdir()
            made.append(folder)
            for file, value in values.items():
                (folder / file).write_text(str(value))
            with suppress(OSError):  # not there, or no swap
                (folder / "memory.swap.max").write_text("0")
    except OSError:
        Group(tuple(made)).close()
        return None
    return Group(tuple(made))


def _memberships() -> Iterator[tuple[str, str]]:
    """Yield the controllers and the cgroup of each we are in; "" is version 2's."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            found = re.fullmatch(r"\d+:([^:]*):(.*)", line)
            for name in found[1].split(",") if found else ():
                yield name, found[2] if found else ""


def joining(doors: tuple[str, ...]) -> str:
    """Return the words with which a shell goes through *doors*, or ends."""
    return "".join(f"echo $$ >{_quoted(door)} || exit 125; " for door in doors)


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"
