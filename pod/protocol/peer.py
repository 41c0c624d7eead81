"""Who is at the other end of a unix socket."""

import os
import socket as sockets
import struct
import sys
from typing import Protocol

_LOCAL_PEERCRED = 1
"""macOS: <sys/un.h>. Level 0 is SOL_LOCAL."""
_XUCRED = 76
"""Bytes of macOS's struct xucred; the user id stands at byte 4."""


class _Socket(Protocol):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


def peer_uid(socket: _Socket) -> int:
    """Return the user id of the process that connected. Raises OSError."""
    if sys.platform == "darwin":
        raw = socket.getsockopt(0, _LOCAL_PEERCRED, _XUCRED)
        return int(struct.unpack_from("I", raw, 4)[0])
    size = struct.calcsize("iII")  # pid, uid, gid
    raw = socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, size)
    return int(struct.unpack("iII", raw)[1])


def is_allowed(socket: _Socket) -> bool:
    """Whether the other end is of our own user, or root."""
    try:
        return peer_uid(socket) in {os.geteuid(), 0}
    except OSError:
        return False
