"""Reading through a thread that can open nothing else."""

import errno
import os
from pathlib import Path
from threading import enumerate as threads

import pytest
import trio

from tools.base import ToolError
from tools.confined import confined
from tools.landlock import abi
from tools.scope import Scope

HAS_LANDLOCK = abi() > 0
needs_landlock = pytest.mark.skipif(
    not HAS_LANDLOCK and bool(os.environ.get("POD_TESTS_WITHOUT_LANDLOCK")),
    reason="no Landlock here, and POD_TESTS_WITHOUT_LANDLOCK says so",
)


async def test_files_are_read_as_through_the_scope_itself(
    workspace: Scope, folder: Path
) -> None:
    (folder / "file").write_text("inside")

    async with confined(workspace) as reading:
        data = await trio.to_thread.run_sync(
            lambda: reading.scope.read_bytes("file", max_bytes=99)
        )
        kind = await trio.to_thread.run_sync(reading.scope.kind, "file")

    assert (data, kind) == (b"inside", "file")


async def test_what_the_scope_refuses_is_refused(
    workspace: Scope, folder: Path
) -> None:
    (folder.parent / "secret").write_text("outside")

    async with confined(workspace) as reading:
        for path in ("../secret", "nothing", str(folder.parent / "secret")):
            with pytest.raises(ToolError):
                await trio.to_thread.run_sync(reading.scope.open_read, path)


async def test_nothing_can_be_written(workspace: Scope, folder: Path) -> None:
    async with confined(workspace) as reading:
        with pytest.raises(
            ToolError, match="lies outside of the folders you may write"
        ):
            await trio.to_thread.run_sync(reading.scope.write_atomic, "new", b"x")

    assert not (folder / "new").exists()


@needs_landlock
async def test_the_thread_could_open_nothing_else_if_the_scope_let_it(
    workspace: Scope, folder: Path
) -> None:
    (folder / "file").write_text("inside")
    (folder.parent / "secret").write_text("outside")
    (folder / "link").symlink_to("../secret")

    def attempt(path: Path, flags: int) -> str:
        try:
            os.close(os.open(path, flags))
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "open"

    async with confined(workspace) as reading:
        outcome = {
            (path.name, flags): await trio.to_thread.run_sync(
                # what the scope has its files opened with
                reading.scope._do,
                lambda path=path, flags=flags: attempt(path, flags),
            )
            for path in (folder / "file", folder / "link", folder.parent / "secret")
            for flags in (os.O_RDONLY, os.O_WRONLY)
        }
        assert reading.confinement == "landlock"

    assert outcome == {
        ("file", os.O_RDONLY): "open",
        ("file", os.O_WRONLY): "EACCES",
        ("link", os.O_RDONLY): "EACCES",
        ("link", os.O_WRONLY): "EACCES",
        ("secret", os.O_RDONLY): "EACCES",
        ("secret", os.O_WRONLY): "EACCES",
    }


async def test_the_thread_ends_with_the_block_and_then_reads_nothing(
    workspace: Scope, folder: Path
) -> None:
    (folder / "file").write_text("inside")
    before = set(threads())

    async with confined(workspace) as reading:
        scope = reading.scope
        (opener,) = (t for t in set(threads()) - before if t.name == "opener")
        assert opener.is_alive()

    assert not opener.is_alive()
    with pytest.raises(ToolError, match="the compaction has ended"):
        scope.open_read("file")
    assert workspace.read_bytes("file", max_bytes=9) == b"inside"
