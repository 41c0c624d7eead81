"""What the planner needs to know of a record: all but its text."""

from typing import Literal

from msgspec import Struct

from pod.file_tools import paths_of
from pod.importing.records import (
    Answer,
    Called,
    Cleared,
    Compacted,
    Header,
    Labelled,
    Link,
    Measured,
    ModelSet,
    Note,
    Own,
    Record,
    Renamed,
    Result,
    Summarised,
    Thought,
    Told,
    User,
    Where,
)

Kind = Literal["link", "user", "answer", "result", "told", "compacted", "quiet"]
"""*quiet* says nothing to the model, so that results behind it still belong to
the answer before it; *told* does."""


class Call(Struct, frozen=True, gc=False):
    """A call of an answer: its id in the file, and the files its arguments name."""

    id: str
    name: str
    paths: tuple[str, ...] = ()


class Outline(Struct, frozen=True, gc=False):
    """A record without its text; some hundred bytes, about a thousand with its place.

    *signed*: it has reasoning that the provider can verify; *blank*: a user
    message without anything in it; *size* is the length of a result's text,
    of a compaction the tokens before it; *is_silent*: it may come to no entry
    that others hang from; *is_manual*: a compaction that a person asked for.
    """

    where: Where
    kind: Kind
    id: str
    parent: str | None
    follows: bool
    side: bool
    key: str = ""
    calls: tuple[Call, ...] = ()
    signed: bool = False
    blank: bool = False
    target: str = ""
    size: int = 0
    cleared: tuple[str, ...] = ()
    is_own: bool = False
    is_silent: bool = False
    is_manual: bool = False


def outline(record: Record, where: Where) -> Outline:
    """Return what the planner needs of *record*, which stands at *where*."""

    def made(
        kind: Kind,
        *,
        key: str = "",
        calls: tuple[Call, ...] = (),
        signed: bool = False,
        blank: bool = False,
        target: str = "",
        size: int = 0,
        cleared: tuple[str, ...] = (),
        is_own: bool = False,
        is_silent: bool = False,
        is_manual: bool = False,
    ) -> Outline:
        return Outline(
            where,
            kind,
            record.id,
            record.parent,
            record.follows,
            record.side,
            key,
            calls,
            signed,
            blank,
            target,
            size,
            cleared,
            is_own,
            is_silent,
            is_manual,
        )

    match record:
        case Header() | Link():
            return made("link")
        case User(text=text, images=images):
            has_images = any(image.data for image in images)
            return made("user", blank=not (text.strip() or has_images))
        case Answer(key=key, parts=parts):
            calls = tuple(
                Call(part.call_id, part.name, paths_of(part.name, part.arguments))
                for part in parts
                if isinstance(part, Called)
            )
            signed = any(
                isinstance(part, Thought) and bool(part.signature or part.redacted)
                for part in parts
            )
            return made("answer", key=key, calls=calls, signed=signed)
        case Result(call=call, text=text):
            return made("result", target=call, size=len(text))
        case Told():
            return made("told")
        case Summarised(from_id=left):
            return made("told", target=left)
        case Compacted(first_kept=first, tokens_before=tokens, is_manual=is_manual):
            return made("compacted", target=first, size=tokens, is_manual=is_manual)
        case Cleared(calls=cleared):
            return made("quiet", cleared=cleared)
        case Labelled(target=target):
            return made("quiet", target=target, is_silent=True)
        case Own():
            return made("quiet", is_own=True, is_silent=True)
        case ModelSet() | Renamed():
            return made("quiet", is_silent=True)
        case Note() | Measured():
            return made("quiet")
