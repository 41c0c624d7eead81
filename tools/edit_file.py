"""The tool that replaces pieces of a file."""

from typing import Annotated

import trio
from msgspec import Meta, Struct

from tools.arguments import parse, schema_of
from tools.base import Call, ToolError, ToolOutput
from tools.descriptions import description_of
from tools.diff import diff
from tools.edits import Edit, apply_edits
from tools.scope import Scope, read_up_to
from tools.text import binary_kind, bom_of, clean, is_binary

EDITED_BYTES = 20 * 1024 * 1024
"""Larger files are data; a program changes them better."""


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file; relative to the working folder.")]
    edits: Annotated[
        tuple[Edit, ...],
        Meta(min_length=1, description="The replacements, applied in this order."),
    ]


class EditFile:
    """edit_file; *lock* keeps the calls that write files one after the other."""

    name = "edit_file"
    has_effects = True

    def __init__(self, scope: Scope, lock: trio.Lock) -> None:
        self._scope = scope
        self._lock = lock
        self.description = description_of(self.name)
        self.parameters = schema_of(Arguments)

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Edit the file. Raises ToolError. Once begun, it is not cancelled."""
        wanted = parse(Arguments, arguments)
        async with self._lock:
            return await trio.to_thread.run_sync(self._edit, wanted)

    def _edit(self, wanted: Arguments) -> ToolOutput:
        shown = self._scope.shown(wanted.path)
        data, stamp = self._read(wanted.path)
        bom, encoding = bom_of(data)
        # In UTF-8, bytes that are none are carried through as they are.
        errors = "surrogateescape" if encoding == "utf-8" else "strict"
        try:
            old = data[len(bom) :].decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise ToolError(f"{shown} is broken {encoding}: {error}") from None
        new, places = apply_edits(old, wanted.edits)
        if new == old:
            raise ToolError("together the edits change nothing; the file is as it was")
        self._scope.write_atomic(
            wanted.path, bom + new.encode(encoding, errors), stamp=stamp
        )
        count = f"{places} replacement{'' if places == 1 else 's'}"
        summary = f"edited {shown} ({count})"
        return ToolOutput(
            summary=summary,
            content=f"{summary}\n{clean(diff(old, new)).text}",
            referenced_files=(self._scope.absolute(wanted.path),),
        )

    def _read(self, path: str) -> tuple[bytes, tuple[int, ...]]:
        opened = self._scope.open_read(path)
        shown = self._scope.shown(path)
        with opened.file:
            try:
                data = read_up_to(opened.file, EDITED_BYTES + 1)
            except OSError as error:
                raise ToolError(f"{shown}: {error.strerror}") from error
        if len(data) > EDITED_BYTES:
            raise ToolError(
                f"{shown} is too large to edit ({opened.size} bytes, "
                f"at most {EDITED_BYTES})"
            )
        if is_binary(data):
            raise ToolError(f"{shown} is no text ({binary_kind(data)})")
        return data, opened.stamp
