"""The process a search runs in: a request on stdin, frames on stdout."""

import os
import resource
import sys

import msgspec

from tools.search import Frame, Refused, Request, search

CPU_SECONDS = 90
"""If nobody is left to end it, the kernel does."""

FLUSH_BYTES = 64 * 1024


def main() -> None:
    """Read one request and answer it."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    try:
        for frame in search(request):
            _send(frame)
    except BrokenPipeError:
        return
    except MemoryError:
        _send(Refused("there is too little memory for this search"))


def _send(frame: Frame) -> None:
    data = memoryview(msgspec.json.encode(frame) + b"\n")
    while data:
        data = data[os.write(1, data) :]
