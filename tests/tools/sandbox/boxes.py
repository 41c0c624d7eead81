"""An open sandbox for a test, and commands run in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bash import command_environment
from tools.process import Exit, run
from tools.sandbox.box import Box, OpenBox
from tools.sandbox.policy import Network, Policy, Tier
from tools.sandbox.probe import find_bwrap, surroundings_here

PATH = os.environ["PATH"]


class Boxed:
    """Commands in *folder*, held by *tier*."""

    def __init__(self, opened: OpenBox, folder: Path, home: Path) -> None:
        self.opened = opened
        self.folder = folder
        source = {"PATH": PATH, "HOME": str(home), "LANG": "C.UTF-8"}
        self.environment = opened.environment(command_environment(source=source))
        self.said = ""

    async def run(self, command: str) -> Exit:
        """Run *command*; what it says is in *said*."""
        output = bytearray()

        async def receive(chunk: bytes) -> None:
            output.extend(chunk)

        try:
            return await run(
                ["/bin/bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                receive=receive,
                launcher=self.opened,
            )
        finally:
            self.said = output.decode(errors="replace")


@contextmanager
def boxed(
    tier: Tier,
    folder: Path,
    *,
    read: tuple[Path, ...] = (),
    home: Path = Path("/nonexistent"),
    network: Network = "none",
    unix_sockets: bool = False,
    memory: int | None = None,
    processes: int | None = None,
) -> Iterator[Boxed]:
    """Open a sandbox in which *folder* may be written."""
    policy = Policy(
        cwd=str(folder),
        read=tuple(map(str, read)),
        write=(str(folder),),
        network=network,
        unix_sockets=unix_sockets,
        memory=memory,
        processes=processes,
    )
    around = surroundings_here(policy, PATH, str(home))
    with Box(tier, policy, around, find_bwrap() or "").open() as opened:
        yield Boxed(opened, folder, home)
