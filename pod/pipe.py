"""Writing to what may be slow, stuck or non-blocking."""

import os
import select


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data*, waiting where *fd* takes nothing now. Raises OSError.

    Whoever shares a terminal or a pipe with us may have made it non-blocking.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(fd, select.POLLOUT)
            waiting.poll()
