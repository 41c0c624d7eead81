"""What Landlock leaves to a command (tier T2)."""

import os
from collections.abc import Iterable
from contextlib import suppress

from tools.landlock import ALL, RUN, Access, Ruleset
from tools.sandbox.policy import Policy, Surroundings, is_within_any, outermost

DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
)
_DEVICE = Access.READ_FILE | Access.WRITE_FILE | Access.IOCTL_DEV
_WRITE = ALL & ~(Access.MAKE_BLOCK | Access.MAKE_CHAR)


def granted(
    policy: Policy, surroundings: Surroundings, private: tuple[str, ...]
) -> list[tuple[str, Access]]:
    """Return what may be done where. Rules only add: nothing can be taken out again.

    So what is root's own below /etc is left out by naming all but that. What lies
    in a folder that is written is not named: it is granted with that, and a
    command could put a link in its place.
    """
    places = [(path, RUN) for path in surroundings.folders if path != "/etc"]
    places += [(path, RUN) for path in _etc(surroundings)]
    places += [(path, RUN) for path in (*surroundings.programs, *surroundings.needed)]
    places += [("/proc", RUN), *((device, _DEVICE) for device in DEVICES)]
    places += [(path, RUN) for path in policy.read]
    written = (*outermost(policy.write), *private)
    kept = [place for place in places if not is_within_any(place[0], written)]
    return kept + [(path, _WRITE) for path in written]


def _etc(surroundings: Surroundings) -> list[str]:
    """Return /etc, or its parts without what is secret."""
    secret = (*surroundings.secret, *surroundings.secret_folders)
    return _without("/etc", secret) if "/etc" in surroundings.folders else []


def _without(folder: str, secret: tuple[str, ...]) -> list[str]:
    if folder in secret:
        return []
    if not any(is_within_any(path, (folder,)) for path in secret):
        return [folder]
    with os.scandir(folder) as entries:
        names = [entry.path for entry in entries if not entry.is_symlink()]
    return [path for name in sorted(names) for path in _without(name, secret)]


def ruleset_of(places: Iterable[tuple[str, Access]], *, network: bool) -> Ruleset:
    """Make a ruleset of what granted() says. Raises OSError where there is no Landlock."""
    ruleset = Ruleset(network=network)
    try:
        for path, access in places:
            with suppress(FileNotFoundError, NotADirectoryError):
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    ruleset.allow(fd, access)
                finally:
                    os.close(fd)
    except BaseException:
        ruleset.close()
        raise
    return ruleset
