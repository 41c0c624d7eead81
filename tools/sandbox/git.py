"""What of a git repository commands must not touch, so that git stays safe outside.

Git runs what .git/hooks and .git/config say. Whoever commits in the workspace
afterwards must not run what a model wrote there. `commondir` names another
folder to take both from.
"""

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.programs import find_program
from tools.sandbox.policy import Pins

MOST_BYTES = 64 * 1024
"""Of a small file of git's."""
MOST_DEPTH = 6
"""Slashes in a submodule's name, and submodules of submodules, that are looked into."""
MOST_PINS = 200
"""Each costs a mount at every command."""


def pins_of(folders: Iterable[str]) -> Pins:
    """Look for the repositories that have their top in one of *folders*.

    A worktree's or a submodule's is kept elsewhere; it is let in where that
    place says that it belongs here, which nobody in the workspace can write.
    """
    held: list[Path] = []
    read_only: list[Path] = []
    writable: list[Path] = []
    absent: list[Path] = []
    for folder in folders:
        top = Path(folder, ".git")
        if top.is_symlink():
            continue
        if top.is_dir():
            held.append(top)
            _guard(top, held, read_only, absent)
        elif top.is_file():
            read_only.append(top)
            place = _kept_elsewhere(top)
            if place is not None:
                writable.append(place)
                _guard(place, held, read_only, absent)
    return Pins(
        held=tuple(map(str, held[:MOST_PINS])),
        read_only=tuple(map(str, read_only[:MOST_PINS])),
        writable=tuple(map(str, writable)),
        absent=tuple(map(str, absent)),
    )


def _guard(
    git: Path,
    held: list[Path],
    read_only: list[Path],
    absent: list[Path],
    depth: int = MOST_DEPTH,
) -> None:
    """Note what of the git folder *git* is read-only, and what must not appear.

    The folders on the way to a submodule's are *held*: moved away, they would
    take the read-only files with them, and others could be put there.
    """
    for name in ("config", "config.worktree", "commondir", "hooks"):
        path = git / name
        if path.is_symlink():
            continue
        (read_only if path.exists() else absent).append(path)
    if not depth:
        return
    for kind in ("modules", "worktrees"):
        for inner in _git_folders(git / kind, depth - 1):
            way = [inner, *inner.parents]
            on_it = reversed(way[: way.index(git)])
            held += [folder for folder in on_it if folder not in held]
            _guard(inner, held, read_only, absent, depth - 1)


def _git_folders(folder: Path, depth: int) -> list[Path]:
    """Return the git folders below .git/modules or .git/worktrees."""
    found: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            inner = [Path(e) for e in entries if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    for path in inner:
        if os.access(path / "HEAD", os.F_OK):
            found.append(path)
        elif depth:  # a submodule's name may have slashes
            found += _git_folders(path, depth - 1)
    return found


def _kept_elsewhere(file: Path) -> Path | None:
    """Return the folder that the file .git of a worktree or a submodule means.

    None where that does not point back.
    """
    said = _line(file)
    if not said.startswith("gitdir:"):
        return None
    git = _resolved(file.parent, said.removeprefix("gitdir:").strip())
    back = _line(git / "gitdir")
    if back and _resolved(git, back) == file:
        common = _line(git / "commondir")
        return _resolved(git, common) if common else None
    return git if _worktree_of(git) == file.parent else None


def _worktree_of(git: Path) -> Path | None:
    """Return the folder that a submodule's config names as its own."""
    for line in _text(git / "config").splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "worktree":
            return _resolved(git, value.strip().strip('"'))
    return None


def _resolved(folder: Path, path: str) -> Path:
    return Path(os.path.realpath(folder / path.replace("\0", "")))


def _line(path: Path) -> str:
    return _text(path).strip()


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return ""


def take_away(absent: Iterable[str]) -> list[str]:
    """Move what a command made under a name that must be *absent*; return the names.

    It stays beside, under a name that means nothing to git.
    """
    moved = []
    for name in absent:
        path = Path(name)
        if not os.path.lexists(path):
            continue
        number = 1
        while os.path.lexists(aside := f"{path}.refused-{number}"):
            number += 1
        try:
            path.rename(aside)
        except OSError:
            continue
        moved.append(name)
    return moved


def identity(home: str, written: Sequence[str] = ()) -> str:
    """Return who commits, and the like, as a .gitconfig; "" where nobody has said.

    git is asked for its global settings alone, outside of any repository; not a
    git in a folder where commands have *written*.
    """
    places = (Path(home, ".gitconfig"), Path(home, ".config/git/config"))
    git = find_program("git", outside=written)
    if git is None or not any(place.exists() for place in places):
        return ""
    command = [git, "config", "--global", "--null", "--get-regexp", _ASKED]
    environment = {"HOME": home, "PATH": os.defpath}
    try:
        done = subprocess.run(
            command, cwd="/", env=environment, capture_output=True, check=False
        )
    except OSError:
        return ""
    said = done.stdout.decode(errors="replace")
    return "".join(_setting(*part.partition("\n")) for part in said.split("\0") if part)


_ASKED = r"^(user\.(name|email)|init\.defaultbranch|safe\.directory)$"


def _setting(key: str, separator: str, value: str) -> str:
    section, _, name = key.rpartition(".")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'[{section}]\n\t{name} = "{quoted}"\n'
