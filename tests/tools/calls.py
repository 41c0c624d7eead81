"""Calling a tool the way the loop does."""

import io
from pathlib import Path
from typing import IO

import msgspec
import pytest

from tools.base import Call, Tool, ToolError, ToolOutput


class NoSpill:
    """A spill that must not be needed."""

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        return Path(name), io.BytesIO()


async def run(tool: Tool, **arguments: object) -> ToolOutput:
    call = Call("call_1", NoSpill(), lambda _: None)
    return await tool.run(msgspec.json.encode(arguments), call)


async def refusal(tool: Tool, **arguments: object) -> str:
    with pytest.raises(ToolError) as caught:
        await run(tool, **arguments)
    return str(caught.value)
