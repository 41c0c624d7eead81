"""What a rung gives: the summary and what goes with it."""

from msgspec import Struct

from pod.compaction.framing import without_files
from pod.entries import AutoRead, FileDetails, Mode, Reference


class Summary(Struct, frozen=True):
    """A summary before it is judged; see pod.entries.Receipt for the figures.

    *preserve_data* is a JSON text to keep with it, *model* who wrote it. A hook
    may have its own *details*; None: those of the ground. *is_split* tells that
    the start of a turn has a summary of its own in it.
    """

    mode: Mode
    text: str
    auto_read: tuple[AutoRead, ...] = ()
    references: tuple[Reference, ...] = ()
    dropped_quotes: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    short: str = ""
    preserve_data: str = ""
    model: str = ""
    from_hook: bool = False
    is_split: bool = False
    details: FileDetails | None = None

    @property
    def prose(self) -> str:
        """The text without the lists of files at its end: what the cap is for."""
        return without_files(self.text)
