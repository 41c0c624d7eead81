"""The words between a tool and whoever runs it."""

from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

from msgspec import Struct


class Image(Struct, frozen=True):
    """A picture: its media type (image/png, …) and its bytes as base64."""

    media_type: str
    data: str


class ToolOutput(Struct, frozen=True):
    """What a tool gives back.

    The model sees *content*, or *summary* where there is none; once the
    result is pruned it sees *summary* alone, so that must say in a line what
    was done and to what. *referenced_files* are the absolute paths the call
    read or changed, for the tracker of files in use.
    """

    summary: str
    content: str | None = None
    referenced_files: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()


class ToolError(Exception):
    """A call that failed in a way the model can act on.

    The message goes to the model as it is: what was wrong, with which value,
    and what to do instead.
    """


class Spill(Protocol):
    """Where the full text of an output that is too long for the model goes."""

    def open(self, name: str) -> tuple[Path, IO[bytes]]:
        """Create a new file whose name contains *name*; give its path too.

        The caller closes it. Raises OSError (a full disk, say).
        """


class Call(Struct, frozen=True):
    """What a tool knows of the call it answers."""

    call_id: str
    spill: Spill
    progress: Callable[[str], None]
    """Tell listeners how far it is: one short line. Never blocks."""


class Tool(Protocol):
    """One thing a model can do."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> bytes:
        """The arguments' JSON Schema (an object schema), as JSON."""

    @property
    def has_effects(self) -> bool:
        """Whether a call may change anything: then it is on disk before it runs."""

    async def run(self, arguments: bytes, call: Call) -> ToolOutput:
        """Run one call with *arguments*, a JSON object.

        Raises ToolError for anything the model should know and can mend,
        arguments of the wrong shape included.
        """
