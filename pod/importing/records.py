"""What a line of another agent's session says, in words that all formats share.

A parser makes records of a line, the planner puts them into a tree that keeps
the history's invariants, the builder makes log entries of them.
"""

from msgspec import Raw, Struct

from tools.base import Image
from worker.usage import Usage


class Where(Struct, frozen=True, gc=False):
    """Where a record stands: bytes of the file, and which record of those bytes."""

    offset: int
    length: int
    part: int


class Said(Struct, frozen=True):
    """Text of an answer. *entry*, here and below, is its entry in Pod's own log."""

    text: str
    extra: str = ""
    entry: str = ""


class Thought(Struct, frozen=True):
    """Reasoning of an answer, as the Messages API signs it (or does not)."""

    text: str
    signature: str = ""
    redacted: str = ""
    extra: str = ""
    entry: str = ""


class Called(Struct, frozen=True):
    """A tool call; *arguments* is a JSON object."""

    call_id: str
    name: str
    arguments: str
    incomplete: bool = False
    extra: str = ""
    entry: str = ""


class Block(Struct, frozen=True):
    """Another block of the Messages API, as JSON."""

    json: str
    entry: str = ""


Part = Said | Thought | Called | Block


class Base(Struct, frozen=True, kw_only=True):
    """What all records have.

    *id* and *parent* are the file's own ("": it has none). With *follows* a
    record hangs from the one before it, whatever *parent* says. *side* marks the
    conversation of another agent in the same file. *at* is RFC 3339, or "".
    """

    id: str = ""
    parent: str | None = None
    follows: bool = False
    side: bool = False
    at: str = ""


class Header(Base, frozen=True, kw_only=True):
    """What a file says of itself."""

    session: str = ""
    cwd: str = ""
    version: str = ""
    name: str = ""


class Link(Base, frozen=True, kw_only=True):
    """Nothing to carry over, but others hang from it.

    *tokens* is what the context held at a compaction's boundary, *is_manual*
    whether a person asked for the compaction.
    """

    tokens: int = 0
    is_manual: bool = False


class User(Base, frozen=True, kw_only=True):
    """A message in the user's place; *synthetic* if no person wrote it."""

    text: str
    images: tuple[Image, ...] = ()
    synthetic: bool = False


class Answer(Base, frozen=True, kw_only=True):
    """What the model answered, or a part of it: records with one *key* belong together.

    *stop* is why it ended in the file's words, *error* what went wrong.
    *context* is what the context held afterwards, in tokens; None where that
    is not known, or does not count.
    """

    key: str
    model: str
    parts: tuple[Part, ...]
    stop: str = ""
    error: str = ""
    usage: Usage | None = None
    context: int | None = None
    cost: float | None = None
    is_counted: bool = False
    """Whether a usage entry of Pod's own says what it used."""


class Result(Base, frozen=True, kw_only=True):
    """The answer to a call; *summary* where the file has one of Pod's."""

    call: str
    text: str
    images: tuple[Image, ...] = ()
    is_error: bool = False
    summary: str = ""
    has_content: bool = True
    files: tuple[str, ...] | None = None


class Told(Base, frozen=True, kw_only=True):
    """Something the model was told that is neither the user's nor its own."""

    kind: str
    text: str


class Note(Base, frozen=True, kw_only=True):
    """Something for the log alone; *json* is JSON."""

    kind: str
    json: str


class Compacted(Base, frozen=True, kw_only=True):
    """The head of the context was replaced by *summary*.

    *first_kept* is the record the kept part begins with, "" for none. *own* is
    the JSON of Pod's own compaction, where the file was exported from one.
    """

    summary: str
    first_kept: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    short_summary: str = ""
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    preserve_data: str = ""
    from_hook: bool = False
    is_manual: bool = True
    own: str = ""


class Summarised(Base, frozen=True, kw_only=True):
    """The summary of a branch that was left; *from_id* is its leaf."""

    summary: str
    from_id: str = ""
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    from_hook: bool = False


class Cleared(Base, frozen=True, kw_only=True):
    """The results of these calls were left out of the context from here on."""

    calls: tuple[str, ...]
    saved: int = 0


class Measured(Base, frozen=True, kw_only=True):
    """What the answer *key* used."""

    key: str = ""
    model: str = ""
    usage: Usage = Usage()
    context: int | None = None


class ModelSet(Base, frozen=True, kw_only=True):
    """From here on another model was asked."""

    model: str


class Renamed(Base, frozen=True, kw_only=True):
    """A name for the session."""

    name: str


class Labelled(Base, frozen=True, kw_only=True):
    """A name for a record; "" takes it away."""

    target: str
    label: str


class Own(Base, frozen=True, kw_only=True):
    """An entry of Pod's own, kept word for word in an export; *json* is its line."""

    json: str


Record = (
    Header
    | Link
    | User
    | Answer
    | Result
    | Told
    | Note
    | Compacted
    | Summarised
    | Cleared
    | Measured
    | ModelSet
    | Renamed
    | Labelled
    | Own
)


class Parsed(Struct, frozen=True):
    """What a line gave: its records, and by name what of it is not carried over."""

    records: tuple[Record, ...] = ()
    losses: tuple[str, ...] = ()


class Unreadable(ValueError):
    """A line that cannot be read; the message says why."""


NO_PLACE = "images in messages that can hold none: left out"
"""Said once for each image of a message that is neither the user's nor a result."""


def raw_text(raw: Raw) -> str:
    """Return JSON that was kept as it came, "" for none."""
    return bytes(raw).decode("utf-8", "replace")
