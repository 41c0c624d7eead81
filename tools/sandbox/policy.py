"""What a command may do, and what there is around it. Values only."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Tier = Literal["bwrap", "landlock", "seatbelt", "off"]
"""What holds a command to its policy; docs/security.md says what each promises."""

Mode = Literal["auto", "bwrap", "landlock", "off"]
"""What a manifest asks for."""

Network = Literal["none", "host"]

DEFAULT_PROCESSES = 4096
"""Processes in one command's own namespace, where nothing else is asked for."""


class Policy(Struct, frozen=True):
    """What commands may do. All paths are absolute and free of symbolic links.

    *read* and *write* are folders; what may be written may be read. *memory*
    is in bytes. Without *unix_sockets* no command can make a socket that has a
    name in the file system, nor talk to one.
    """

    cwd: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    network: Network = "none"
    unix_sockets: bool = False
    memory: int | None = None
    processes: int | None = None


class Link(Struct, frozen=True):
    """A symbolic link of the system's, like /bin."""

    path: str
    target: str


class Surroundings(Struct, frozen=True):
    """What the machine is like: see `tools.sandbox.surroundings`.

    *folders* are the system's, *links* stand beside them. *programs* are
    folders and files outside of them that what is on the PATH needs. *secret*
    files and *secret_folders* of the system are root's own, and so are ours
    where we are root. *needed* are further paths that must be there.
    """

    home: str
    folders: tuple[str, ...]
    links: tuple[Link, ...] = ()
    programs: tuple[str, ...] = ()
    is_root: bool = False
    secret: tuple[str, ...] = ()
    secret_folders: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()


class Pins(Struct, frozen=True):
    """What of a repository stays where it is (*held*) and what is *read_only* too.

    *writable* lies outside of the write roots, but the repository in one of
    them is kept there. *absent* are names that must not come into being.
    """

    held: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def is_within(path: str, folder: str) -> bool:
    """Tell whether *path* is *folder* or lies below it, by their words alone."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def is_within_any(path: str, folders: tuple[str, ...]) -> bool:
    return any(is_within(path, folder) for folder in folders)


def outermost(paths: Iterable[str]) -> list[str]:
    """Return *paths* without those that lie in another of them."""
    kept: list[str] = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not kept or not is_within(path, kept[-1]):
            kept.append(path)
    return kept
