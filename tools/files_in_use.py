"""The files a Pod works with, the most recently used first."""

from collections.abc import Iterable

MOST_FILES = 50
"""How many are remembered; compaction asks for the first five."""


class FilesInUse:
    """Absolute paths of files that were read or changed, newest first."""

    def __init__(self, paths: Iterable[str] = (), *, most: int = MOST_FILES) -> None:
        """Begin with *paths*, oldest first; never hold more than *most*."""
        self._most = most
        # A dict keeps its order; the newest is the last.
        self._paths: dict[str, None] = {}
        self.touch(paths)

    def touch(self, paths: Iterable[str]) -> None:
        """Take note that *paths* were used in this order: the last is the newest."""
        for path in paths:
            self._paths.pop(path, None)
            self._paths[path] = None
        for path in list(self._paths)[: -self._most]:
            del self._paths[path]

    def become(self, other: "FilesInUse") -> None:
        """Forget all, and know what *other* knows."""
        self._paths = dict(other._paths)

    def first(self, count: int) -> tuple[str, ...]:
        """Return the *count* most recently used, newest first."""
        return tuple(reversed(self._paths))[: max(count, 0)]
