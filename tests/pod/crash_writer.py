"""Appends to a log until it is killed, and tells on stdout what is safe.

Started by test_crash.py: path, seed.
"""

import os
import sys
from pathlib import Path
from random import Random

import trio

from pod.disk import RealDisk
from pod.session import Session
from tests.pod.logs import said


class TornDisk(RealDisk):
    """Every write in pieces, so that a kill can fall between them."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def write(self, fd: int, data: memoryview) -> int:
        return super().write(fd, data[: self._random.randint(1, len(data))])


async def main() -> None:
    random = Random(int(sys.argv[2]))
    session = Session.open(Path(sys.argv[1]), disk=TornDisk(random))
    os.write(1, b"open\n")
    while True:
        size = int(random.expovariate(1 / 3000)) + 1
        batch = session.append(
            *(said(os.urandom(size).hex()) for _ in range(random.randint(1, 5)))
        )
        await session.commit()
        os.write(1, b"%d %s\n" % (batch[-1].seq, batch[-1].id.encode()))


if __name__ == "__main__":
    trio.run(main)
