"""The tool that writes a whole file."""

from typing import Annotated

import trio
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import Call, ToolOutput
from tools.descriptions import description_of
from tools.scope import Scope


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file; relative to the working folder.")]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


class WriteFile:
    """write_file; *lock* keeps the calls that write files one after the other."""

    name = "write_file"
    has_effects = True

    def __init__(self, scope: Scope, lock: trio.Lock) -> None:
        self._scope = scope
        self._lock = lock
        self.description = description_of(self.name)
        self.parameters = schema_of(Arguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Write the file. Raises ToolError. Once begun, it is not cancelled."""
        wanted = parse(Arguments, arguments)
        async with self._lock:
            return await trio.to_thread.run_sync(self._write, wanted)

    def _write(self, wanted: Arguments) -> ToolOutput:
        data = wanted.content.encode()
        is_new = self._scope.write_atomic(wanted.path, data, make_folders=True)
        lines = len(wanted.content.removesuffix("\n").split("\n")) if data else 0
        done = "created" if is_new else "overwrote"
        return ToolOutput(
            summary=f"{done} {self._scope.shown(wanted.path)} "
            f"({lines} lines, {len(data)} bytes)",
            referenced_files=(self._scope.absolute(wanted.path),),
        )
