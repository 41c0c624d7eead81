"""What a rung gives: the summary and what goes with it."""

from msgspec import Struct

from pod.entries import AutoRead, Mode, Reference


class Summary(Struct, frozen=True):
    """A summary before it is judged; see pod.entries.Receipt for the figures."""

    mode: Mode
    text: str
    auto_read: tuple[AutoRead, ...] = ()
    references: tuple[Reference, ...] = ()
    dropped_quotes: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
