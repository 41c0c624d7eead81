"""The process a search runs in: a request on stdin, frames on stdout."""

import codecs
import os
import resource
import sys
from contextlib import suppress

import msgspec

from tools.landlock import READ, RUN, Access, Ruleset
from tools.search import Frame, Grep, Refused, Request, search

CPU_SECONDS = 90
"""If nobody is left to end it, the kernel does."""

FLUSH_BYTES = 64 * 1024


def main() -> None:
    """Read one request and answer it."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    with suppress(OSError):  # there is no Landlock: the walk alone holds it
        _confine(request)
    try:
        for frame in search(request):
            _send(frame)
    except BrokenPipeError:
        return
    except MemoryError:
        _send(Refused("there is too little memory for this search"))


def _confine(request: Request) -> None:
    """Let this process, and ripgrep, open nothing but what is searched.

    ripgrep opens by path what the walk has named. Should a link have taken its
    place, it leads nowhere. Raises OSError where there is no Landlock.
    """
    for encoding in _ENCODINGS:  # no module can be imported later
        codecs.lookup(encoding)
    with Ruleset() as rules:
        rules.allow(request.start, READ)
        if isinstance(request, Grep) and request.rg is not None:
            for path, access in ((request.rg, RUN), *_FOR_RG):
                _allow(rules, path, access)
        rules.restrict_thread()


def _allow(rules: Ruleset, path: str, access: Access) -> None:
    with suppress(OSError):  # not there on this system
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rules.allow(fd, access)
        finally:
            os.close(fd)


_ENCODINGS = (
    "utf-8-sig",
    "utf-16-le",
    "utf-16-be",
    "utf-16",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
)
_FOR_RG = (
    ("/dev/null", READ | Access.WRITE_FILE),
    ("/etc/ld.so.cache", READ),
    *((folder, RUN) for folder in ("/lib", "/lib64", "/usr/lib", "/usr/lib64")),
)
"""What a program needs besides itself to be started."""


def _send(frame: Frame) -> None:
    data = memoryview(msgspec.json.encode(frame) + b"\n")
    while data:
        data = data[os.write(1, data) :]
