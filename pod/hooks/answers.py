"""What a hook may answer, and what several answers make together.

A command prints one JSON object; a Python function returns one of these
structs, a mapping with the same keys, or None. What is left out changes
nothing, a key that is not known is a failure: a misspelt "cancel" is better
reported than passed over.
"""

from collections.abc import Mapping
from typing import Self, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pod.entries import FileDetails
from pod.hooks.payloads import HookEvent, PostToolCall
from tools.text import clean

MOST_BYTES = 1 << 20
"""Bytes of JSON in one answer; a longer one is a failure."""


class Garbage(ValueError):
    """What a hook answered is no answer; the message says why."""


class Answer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An answer to one event. Without anything in it, it changes nothing."""

    @property
    def is_final(self) -> bool:
        """Whether no further hook is asked."""
        return False

    def signed(self, hook: str) -> Self:
        """Return it with a message that can be shown, where it needs one."""
        return self

    def with_later(self, later: Self) -> Self:
        """Return this answer with what *later* sets laid over it.

        Fields that *later* leaves out stay; lines of context are added to those
        that are there.
        """
        changes: dict[str, object] = {}
        for name, default in zip(
            self.__struct_fields__, self.__struct_defaults__, strict=True
        ):
            before, after = getattr(self, name), getattr(later, name)
            if after != default:
                is_list = isinstance(after, tuple)
                changes[name] = (*before, *after) if is_list else after
        return replace(self, **changes)


class Deciding(Answer, frozen=True, kw_only=True):
    """An answer that can stop what it is about; *message* says why."""

    message: str = ""

    def signed(self, hook: str) -> Self:
        if not self.is_final:
            return self
        said = clean(self.message).text.strip()
        return replace(self, message=said or f"the hook {hook} says so, and not why")


class HookCompaction(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole compaction, in place of what the strategy would make.

    *first_kept* is the id of the entry from which on everything stays (None: as
    it was planned), *details* the files read and changed (None: as found),
    *preserve_data* a JSON text to keep in the log with it. It is judged like
    any other.
    """

    summary: str
    first_kept: str | None = None
    details: FileDetails | None = None
    preserve_data: str = ""


class HookSummary(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A branch summary, in place of the model's. *details* None: as found."""

    text: str
    details: FileDetails | None = None


class BeforeCompactAnswer(Deciding, frozen=True, kw_only=True):
    """*cancel* begins no compaction, *message* says why; or a whole *compaction*."""

    cancel: bool = False
    compaction: HookCompaction | None = None

    @property
    def is_final(self) -> bool:
        return self.cancel


class CompactingAnswer(Answer, frozen=True, kw_only=True):
    """How to write the summary.

    *prompt* takes the place of the instructions to the summariser, *context* are
    lines it gets besides, *preserve_data* is a JSON text to keep with the entry.
    """

    prompt: str | None = None
    context: tuple[str, ...] = ()
    preserve_data: str = ""


class BeforeTreeAnswer(Deciding, frozen=True, kw_only=True):
    """*cancel* stays where it is, *message* says why.

    *summary* is used only where one was asked for; *instructions*,
    *replace_instructions* and *label* take the place of those asked with.
    """

    cancel: bool = False
    summary: HookSummary | None = None
    instructions: str | None = None
    replace_instructions: bool | None = None
    label: str | None = None

    @property
    def is_final(self) -> bool:
        return self.cancel


class PreLlmRequestAnswer(Deciding, frozen=True, kw_only=True):
    """*context* are texts for the model, logged before the request is made.

    *stop* ends the run before it, *message* says why.
    """

    stop: bool = False
    context: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.stop


class PreToolCallAnswer(Deciding, frozen=True, kw_only=True):
    """*deny* answers the call with an error, whose text for the model is *message*.

    *stop* ends the run, too; *message* says why.
    """

    deny: bool = False
    stop: bool = False

    @property
    def is_final(self) -> bool:
        return self.deny or self.stop


class PostToolCallAnswer(Deciding, frozen=True, kw_only=True):
    """*summary* and *content* take the place of the result's, *context* is added to it.

    Images go with the content they came with. *stop* ends the run once the results
    are in the log, *message* says why.
    """

    stop: bool = False
    summary: str | None = None
    content: str | None = None
    context: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.stop


class Looked(Struct, frozen=True):
    """What hooks made of a result. *stop* ends the run and says why."""

    summary: str
    content: str | None
    images: int
    stop: str | None = None


def changed(seen: PostToolCall, said: PostToolCallAnswer) -> PostToolCall:
    """Return the result as *said* leaves it: what the next hook sees."""
    summary = seen.summary if said.summary is None else said.summary
    content, images = seen.content, seen.images
    if said.content is not None:
        content, images = said.content, 0
    if said.context:
        shown = summary if content is None else content
        content = "\n".join([shown, *said.context])
    return replace(seen, summary=summary, content=content, images=images)


def withheld(tool: str, why: str) -> PostToolCallAnswer:
    """Return the answer that keeps nothing of a result of *tool*, and stops."""
    text = f"{tool} has run, but its result is withheld: {why}. What it did stays done."
    return PostToolCallAnswer(stop=True, message=why, summary=text, content=text)


class Nothing(Answer, frozen=True, kw_only=True):
    """The answer to an event that a hook is only told of."""


ANSWERS: Mapping[HookEvent, type[Answer]] = {
    "session_before_compact": BeforeCompactAnswer,
    "session_compacting": CompactingAnswer,
    "session_compact": Nothing,
    "session_before_tree": BeforeTreeAnswer,
    "session_tree": Nothing,
    "pre_llm_request": PreLlmRequestAnswer,
    "pre_tool_call": PreToolCallAnswer,
    "post_tool_call": PostToolCallAnswer,
    "run_end": Nothing,
}
"""What may be answered to each event."""

A = TypeVar("A", bound=Answer)


def parse(said: object, kind: type[A]) -> A:
    """Return what a hook said as an answer of *kind*.

    *said* is JSON in bytes or what a Python function returned. Nothing at all,
    None and ``{}`` are the answer that changes nothing. Raises Garbage.
    """
    json = _as_json(said)
    if json.strip() in {b"", b"null"}:
        return kind()
    try:
        answer = msgspec.json.decode(json, type=kind)
    except msgspec.ValidationError as error:
        raise Garbage(f"its answer cannot be used: {error}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Garbage(f"its answer is no JSON: {error}") from None
    for text in _kept_data(answer):
        try:
            msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Garbage(f"its preserve_data is no JSON text: {error}") from None
    return answer


def _as_json(said: object) -> bytes:
    try:
        json = said if isinstance(said, bytes) else msgspec.json.encode(said)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = type(said).__name__
        raise Garbage(f"it returned {kind}, which is no answer: {error}") from None
    if len(json) > MOST_BYTES:
        raise Garbage(f"its answer is longer than {MOST_BYTES:,} bytes")
    return json


def _kept_data(answer: Answer) -> list[str]:
    """Return the texts in *answer* that have to be JSON themselves."""
    match answer:
        case CompactingAnswer(preserve_data=text):
            return [text] if text else []
        case BeforeCompactAnswer(compaction=HookCompaction(preserve_data=text)):
            return [text] if text else []
        case _:
            return []
