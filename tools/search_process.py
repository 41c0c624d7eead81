"""Running a search in a process of its own, which can be ended at any moment."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from tools.base import ToolError
from tools.offspring import reap_group
from tools.search import End, FileMatches, Frame, Listed, Refused, Request

SECONDS = 60
"""How long a search may take; then what was found so far is the answer."""

# -I: nothing of the environment or the working folder decides what is run.
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); import tools.search_child as c; c.main()"
_COMMAND = [sys.executable, "-I", "-X", "utf8", "-W", "ignore", "-c", _BOOT]
_ROOT = str(Path(__file__).resolve().parent.parent)
_CHUNK_BYTES = 64 * 1024

_REAP_SECONDS = 1.0

Found = FileMatches | Listed

_decoder: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)


async def run_search(
    request: Request, descriptors: Sequence[int], found: Callable[[Found], None]
) -> End:
    """Carry out *request*, which refers to *descriptors*; hand over what is *found*.

    Return how it ended. Whatever happens, the process and all it started is
    gone in the end. Raises ToolError where the search is refused or dies.
    """
    process = await trio.lowlevel.open_process(
        [*_COMMAND, _ROOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
        start_new_session=True,
        cwd="/",
        env={},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    last: Refused | End | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, process.stdin, msgspec.json.encode(request))
            last = await _receive(process.stdout, found)
    finally:
        await _finish(process)
    match last:
        case None:
            raise ToolError(f"the search broke off (exit code {process.returncode})")
        case Refused(message):
            raise ToolError(message)
        case End():
            return last


async def _receive(
    pipe: trio.abc.ReceiveStream, found: Callable[[Found], None]
) -> Refused | End | None:
    """Hand over frames up to the last, which is returned; None if it never came."""
    rest = b""
    while chunk := await pipe.receive_some(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            match frame := _decoder.decode(line):
                case Refused() | End():
                    return frame
                case FileMatches() | Listed():
                    found(frame)
    return None


async def _finish(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with trio.CancelScope(shield=True):
        await process.wait()
        # What it had started became ours, if we have ever run a command.
        await trio.to_thread.run_sync(reap_group, process.pid, _REAP_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                await pipe.aclose()


async def _send(pipe: trio.abc.SendStream, data: bytes) -> None:
    async with pipe:
        with suppress(trio.BrokenResourceError):
            await pipe.send_all(data)
