"""The arguments that make bubblewrap hold a command to a policy (tier T1).

The command gets a file system of its own, empty but for what is put into it:
the system, read-only; the policy's folders; a private /tmp, /run and home. See
bwrap(1).
"""

import os
import posixpath
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from tools.sandbox.policy import (
    Pins,
    Policy,
    Surroundings,
    is_within_any,
    outermost,
)

NAMESPACES = (
    "--unshare-user-try",  # as root it may do without
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


_TMP, _OTHER_TMP = "/tmp", "/var/tmp"


class Mount(Struct, frozen=True):
    """One thing that is put at *path*; what is there already is covered.

    *source* is a path outside, or what a link says.
    """

    kind: Literal["ro-bind", "bind", "tmpfs", "proc", "dev", "dir", "symlink"]
    path: str
    source: str = ""


class Private(Struct, frozen=True):
    """Folders that are the commands' own: what they see as /tmp and as home."""

    tmp: str
    home: str


def arguments(
    policy: Policy,
    surroundings: Surroundings,
    private: Private,
    pins: Pins,
    *,
    seccomp: int,
    descriptors: Mapping[str, int] = MappingProxyType({}),
) -> list[str]:
    """Return bubblewrap's arguments up to the command, "--" included.

    *seccomp* is the descriptor that the filter is read from; *descriptors* mean
    paths outside that are bound by them, so that nothing can be put in their
    place meanwhile. Each bind costs a
    tenth of a millisecond: bubblewrap looks at all mounts after it.
    """
    said = ["--die-with-parent", "--new-session", *NAMESPACES]
    if policy.network == "none":
        said.append("--unshare-net")
    said += ["--cap-drop", "ALL"]
    for mount in mounts(policy, surroundings, private, pins):
        said += _words(mount, descriptors)
    if surroundings.is_root:
        # Settings of the kernel are root's files: no capability is needed.
        said += ["--remount-ro", "/proc"]
    if "/" not in policy.write:
        said += ["--remount-ro", "/"]
    return [*said, "--seccomp", str(seccomp), "--chdir", policy.cwd, "--"]


def environment_arguments(env: Mapping[str, str]) -> bytes:
    """Return the arguments that set *env*, as --args takes them from a descriptor.

    On the command line all users could read it.
    """
    words = (w for name, value in env.items() for w in ("--setenv", name, value))
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _words(mount: Mount, descriptors: Mapping[str, int]) -> list[str]:
    if mount.source == mount.path and mount.path in descriptors:
        return [f"--{mount.kind}-fd", str(descriptors[mount.path]), mount.path]
    return [f"--{mount.kind}", *filter(None, [mount.source]), mount.path]


def mounts(
    policy: Policy, surroundings: Surroundings, private: Private, pins: Pins
) -> list[Mount]:
    """Return what is put where, folders before what lies in them."""
    placed: dict[str, Mount] = {}
    for mount in (
        *_read_only(policy, surroundings),
        *_private(policy, surroundings, private),
        # Not those in another: a command could put a link in their place.
        *(Mount("bind", path, path) for path in outermost(policy.write)),
        *_own(policy),
        *_pinned(pins),
    ):
        placed[mount.path] = mount
    for mount in [*_fastened(placed, private)]:
        placed[mount.path] = mount
    # By its parts, so that a folder comes before all that lies in it.
    return sorted(placed.values(), key=lambda mount: mount.path.split("/"))


def _read_only(policy: Policy, surroundings: Surroundings) -> Iterator[Mount]:
    granted = (*policy.read, *policy.write)
    wanted = (*surroundings.folders, *surroundings.programs, *surroundings.needed)
    for path in outermost(wanted):
        if not is_within_any(path, granted):
            yield Mount("ro-bind", path, path)
    for link in surroundings.links:
        if not is_within_any(link.path, granted):
            yield Mount("symlink", link.path, link.target)
    for path in outermost(policy.read):
        if not is_within_any(path, policy.write):
            yield Mount("ro-bind", path, path)
    # In a folder that was granted as a whole they were granted, too.
    for path in surroundings.secret:
        if not is_within_any(path, granted):
            yield Mount("ro-bind", path, "/dev/null")
    for path in surroundings.secret_folders:
        if not is_within_any(path, granted):
            yield Mount("tmpfs", path)


def _private(
    policy: Policy, surroundings: Surroundings, private: Private
) -> Iterator[Mount]:
    granted = (*policy.read, *policy.write)
    if not is_within_any(_TMP, policy.write) and _TMP not in policy.read:
        yield Mount("bind", _TMP, private.tmp)
        if not is_within_any(_OTHER_TMP, granted):
            yield Mount("symlink", _OTHER_TMP, _TMP)
    home = surroundings.home
    if home != "/" and not is_within_any(home, (*granted, *surroundings.folders)):
        yield Mount("bind", home, private.home)
    if not is_visible(policy, surroundings):
        yield Mount("dir", policy.cwd)


def is_visible(policy: Policy, surroundings: Surroundings) -> bool:
    """Tell whether the working folder is among what commands see."""
    shown = (*policy.read, *policy.write, *surroundings.folders, *surroundings.programs)
    return is_within_any(policy.cwd, shown)


def _fastened(placed: Mapping[str, Mount], private: Private) -> Iterator[Mount]:
    """Hold the folders between a private one and what is put below it.

    They are the commands' own. One that a command has moved away, with a link in
    its place, would lead bubblewrap out of the sandbox when it sets up the next.
    """
    for path, mount in placed.items():
        between = [path] if mount.kind == "dir" else []
        above = posixpath.dirname(path)
        while above not in placed and above != "/":
            between.append(above)
            above = posixpath.dirname(above)
        if above in placed and placed[above].source in (private.tmp, private.home):
            for each in between:
                source = placed[above].source + each.removeprefix(above)
                yield Mount("bind", each, source)


def _own(policy: Policy) -> Iterator[Mount]:
    yield Mount("proc", "/proc")
    yield Mount("dev", "/dev")
    if not is_within_any("/run", (*policy.read, *policy.write)):
        yield Mount("tmpfs", "/run")


def _pinned(pins: Pins) -> Iterator[Mount]:
    for path in (*pins.writable, *pins.held):
        yield Mount("bind", path, path)
    for path in pins.read_only:
        yield Mount("ro-bind", path, path)
