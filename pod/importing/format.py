"""What a reader of another agent's sessions is, and what a file says of itself."""

from typing import Protocol

from msgspec import Struct

from pod.importing.records import Parsed, Record


class Origin(Struct, frozen=True, omit_defaults=True):
    """Where a session comes from: the agent, its format, and the session's own words."""

    agent: str
    format: str = ""
    session: str = ""
    cwd: str = ""
    at: str = ""


class Linker(Protocol):
    """Gives the records of one pass their places; asked in the file's order."""

    def link(self, record: Record) -> Record: ...


class Format(Protocol):
    """One agent's format."""

    def records(self, data: bytes) -> Parsed:
        """Return what a line (or the whole document) says.

        The same bytes give the same records. Raises Unreadable.
        """

    def linker(self) -> Linker: ...


class NotImportable(Exception):
    """The file is nothing that can be imported; the message says why, in one line."""
