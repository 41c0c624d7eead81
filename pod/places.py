"""Files and folders that a manifest names, and who can put others in their place."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from pod.toml_text import quoted


class Place(Struct, frozen=True):
    """A file or folder that a manifest names.

    *name* is how it is written there, *path* is absolute and free of symlinks,
    *kind* is what is there.
    """

    name: str
    path: str
    kind: Literal["file", "folder", "missing"]


class HookFile(Struct, frozen=True):
    """A file that a hook is made of.

    *steps* are the paths gone through on the way to it, symlinks included; each
    is free of symlinks but for its last part.
    """

    place: Place
    steps: tuple[str, ...]
    is_executable: bool = True


def can_write(root: Place, steps: Sequence[str]) -> bool:
    """Whether what is on the way can be replaced by who may write in *root*.

    The root itself cannot: a way may lead over it, and out of it again.
    """
    below = f"{root.path.rstrip('/')}/"
    return any(step.startswith(below) for step in steps)


def no_file(place: Place) -> str:
    what = "is a folder" if place.kind == "folder" else "does not exist"
    return f"{shown(place)} {what}: a file is needed"


def shown(place: Place) -> str:
    path = quoted(place.path)
    return path if place.name == place.path else f"{quoted(place.name)} ({path})"
