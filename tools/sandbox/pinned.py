"""What of the repositories is pinned while commands run."""

import functools
import os
import subprocess
from threading import Lock

from msgspec import Struct

from tools.sandbox import git
from tools.sandbox.policy import Pins


class Held(Struct, frozen=True):
    """The *pins*, and descriptors of the paths in them."""

    pins: Pins = Pins()
    descriptors: dict[str, int] = {}


class Pinned:
    """The same pins for all commands at a time.

    While one runs nothing is looked at anew: it could put a link where a
    repository was found, and the next one would be let in there. For commands
    of another Pod in the same folder the paths are opened here, and
    bubblewrap is given the descriptors where it takes them.
    """

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self._lock = Lock()
        self._running = 0
        self._held = Held()

    def take(self) -> Held:
        """Return the pins for one more command; release() them after it."""
        with self._lock:
            if not self._running:
                self._let_go()
                self._held = _hold(git.pins_of(self._folders))
            self._running += 1
            return self._held

    def release(self) -> list[str]:
        """Say that a command is over; return what had to be moved away."""
        with self._lock:
            self._running -= 1
            return git.take_away(self._held.pins.absent)

    def close(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        for fd in self._held.descriptors.values():
            os.close(fd)
        self._held = Held()


def _hold(pins: Pins) -> Held:
    """Open what is pinned; leave out what is not where it was found."""
    descriptors: dict[str, int] = {}
    for path in (*pins.held, *pins.read_only, *pins.writable):
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        if os.readlink(f"/proc/self/fd/{fd}") == path:  # noqa: PTH115  of the kernel's
            descriptors[path] = fd
        else:
            os.close(fd)

    def there(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path for path in paths if path in descriptors)

    kept = Pins(
        there(pins.held), there(pins.read_only), there(pins.writable), pins.absent
    )
    return Held(kept, descriptors)


@functools.cache
def takes_descriptors(bwrap: str) -> bool:
    """Tell whether this bubblewrap can bind what a descriptor means (since 0.10)."""
    said = subprocess.run([bwrap, "--help"], capture_output=True, check=False)
    return b"--ro-bind-fd" in said.stdout + said.stderr
