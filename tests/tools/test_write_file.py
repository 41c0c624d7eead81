from pathlib import Path

import pytest
import trio

from tests.tools.calls import refusal, run
from tools.base import ToolOutput
from tools.scope import Scope
from tools.write_file import WriteFile


@pytest.fixture
def tool(workspace: Scope) -> WriteFile:
    return WriteFile(workspace, trio.Lock())


async def test_a_file_and_its_folders_are_created(
    tool: WriteFile, folder: Path
) -> None:
    output = await run(tool, path="src/new/a.py", content="one\n\ntwo ä")

    assert output == ToolOutput(
        summary="created src/new/a.py (3 lines, 11 bytes)",
        referenced_files=(f"{folder}/src/new/a.py",),
    )
    assert (folder / "src/new/a.py").read_text("utf-8") == "one\n\ntwo ä"


async def test_a_file_is_overwritten_as_a_whole(tool: WriteFile, folder: Path) -> None:
    (folder / "a").write_text("much longer than that")

    outputs = [await run(tool, path="a", content=content) for content in ("x\r\n", "")]

    assert [output.summary for output in outputs] == [
        "overwrote a (1 lines, 3 bytes)",
        "overwrote a (0 lines, 0 bytes)",
    ]
    assert (folder / "a").read_bytes() == b""


async def test_a_file_outside_is_not_written(tool: WriteFile, folder: Path) -> None:
    (folder / "out").symlink_to("..")

    messages = [
        await refusal(tool, path=path, content="x") for path in ("../a", "out/a")
    ]

    assert messages == [
        f"{folder.parent}/a lies outside of the folders you may write: {folder}",
        f"out/a leads out of the folders you may write: {folder}",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["ws"]
