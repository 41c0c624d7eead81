"""Looking at the machine: its folders, and what lies outside of them that programs need."""

import functools
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.sandbox.policy import Link, Surroundings, is_within_any

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
)
"""What a command may read of the system. Not /var, /srv, /home, /root, /boot, /mnt."""
MORE = ("/nix/store", "/gnu/store", "/run/current-system", "/snap", "/etc/static")
"""Where some systems keep their programs."""

SIBLINGS = (
    *("lib", "lib64", "libexec", "include", "versions", "version", "plugins"),
    "pyvenv.cfg",
)
"""Beside a folder of programs: what they need. Not "share", where keyrings lie."""
MANY = 3
"""With so many of them a folder is a toolchain's, and let in as a whole."""
MIXED = (".local", ".cargo")
"""Folders of the home that hold programs and secrets."""
MOST_PROGRAMS = 2000
"""Names of a folder on the PATH that are looked at for links."""
MOST_SECRETS = 200
"""Files of root's under /etc; each costs a mount."""


@functools.lru_cache(maxsize=8)
def look(path: str, home: str, *, network: bool) -> Surroundings:
    """Look around once. *path* is the PATH of commands, *home* their HOME.

    *network* says whether names must be resolved as outside.
    """
    folders = [p for p in (*SYSTEM, *MORE) if Path(p).is_dir() and not _link(p)]
    links = [Link(p, target) for p in SYSTEM if (target := _link(p))]
    secret, secret_folders = _secrets() if os.geteuid() == 0 else ([], [])
    return Surroundings(
        home=os.path.realpath(home),
        folders=tuple(folders),
        links=tuple(links),
        programs=tuple(_programs(path, tuple(folders), home)),
        is_root=os.geteuid() == 0,
        secret=tuple(secret),
        secret_folders=tuple(secret_folders),
        needed=tuple(_needed(tuple(folders), network=network)),
    )


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _needed(folders: tuple[str, ...], *, network: bool) -> Iterator[str]:
    # Often a link into /run.
    resolver = os.path.realpath("/etc/resolv.conf")
    if network and Path(resolver).is_file() and not is_within_any(resolver, folders):
        yield resolver


def _programs(path: str, folders: tuple[str, ...], home: str) -> list[str]:
    """Return what is needed to run the programs of *path* that lie elsewhere.

    Pod's own interpreter is among it: a virtual environment in the workspace is
    mostly made from the same. The workspace itself is not asked, the model
    writes there.
    """
    home = os.path.realpath(home)
    found: dict[str, None] = {}
    prefixes = (sys.prefix, sys.base_prefix, str(Path(os.__file__).parent))
    for prefix in prefixes:
        _add(found, os.path.realpath(prefix), folders, home)
    for entry in path.split(os.pathsep):
        real = os.path.realpath(entry)
        is_system = is_within_any(real, folders)
        if (
            is_system
            or not Path(entry).is_absolute()
            or not os.access(real, os.R_OK | os.X_OK)
        ):
            continue
        for place in (real, *_beside(real), *_led_to(real, folders)):
            _add(found, place, folders, home)
    if f"{home}/.cargo/bin" in found:
        _add(found, f"{home}/.rustup", folders, home)
    return list(found)


def _add(
    found: dict[str, None], path: str, folders: tuple[str, ...], home: str
) -> None:
    """Add *path*, unless it is there by the system's folders, or far too much."""
    too_much = is_within_any(home, (path,)) or path.count("/") < 2
    if not too_much and not is_within_any(path, folders) and os.access(path, os.F_OK):
        found[path] = None


def _beside(folder: str) -> Iterator[str]:
    path = Path(folder)
    if path.name not in ("bin", "sbin", "shims"):
        return
    beside = [path.parent / name for name in SIBLINGS]
    there = [place for place in beside if os.access(place, os.F_OK)]
    if len(there) >= MANY and path.parent.name not in MIXED:
        there = [path.parent]
    yield from map(str, there)


def _led_to(folder: str, folders: tuple[str, ...]) -> Iterator[str]:
    """Yield what the links in *folder* lead to, and what lies beside that."""
    seen = set()
    if not Path(folder).is_dir():
        return
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_PROGRAMS:
                return
            if not entry.is_symlink():
                continue
            target = Path(os.path.realpath(entry.path))
            place = str(target.parent)
            if place in seen or is_within_any(place, (folder, *folders)):
                continue
            seen.add(place)
            if target.parent.name in ("bin", "sbin"):
                yield place
                yield from _beside(place)
            elif os.access(target, os.R_OK):
                yield str(target)


def _secrets() -> tuple[list[str], list[str]]:
    """Return files and folders under /etc that are for root's eyes alone."""
    files: list[str] = []
    folders: list[str] = []
    waiting = ["/etc"]
    while waiting and len(files) + len(folders) < MOST_SECRETS:
        for name, found in _entries(waiting.pop()):
            is_open = bool(found.st_mode & stat.S_IROTH)
            if stat.S_ISDIR(found.st_mode):
                (waiting if is_open else folders).append(name)
            elif stat.S_ISREG(found.st_mode) and found.st_size and not is_open:
                files.append(name)
    return sorted(files), sorted(folders)


def _entries(folder: str) -> Iterable[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.path, entry.stat(follow_symlinks=False)) for entry in entries
            ]
    except OSError:
        return []
