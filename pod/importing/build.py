"""From a planned step and its records to entries of the log."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from pod.entries import (
    Custom,
    CustomMessage,
    Directive,
    FileDetails,
    ItemEntry,
    Known,
    ModelChange,
    SessionInfo,
    UsageEntry,
)
from pod.importing.outline import Call
from pod.importing.own import SYSTEM_TEXT
from pod.importing.records import (
    Answer,
    Block,
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
    Part,
    Record,
    Renamed,
    Result,
    Said,
    Summarised,
    Thought,
    Told,
    User,
)
from pod.importing.steps import AnswerStep
from pod.importing.tally import Tally
from prompts import fill, load
from tools.base import Image
from tools.text import short_line
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

LATE_REASONING = "reasoning that stands behind the call it led to: left out"
NO_IMAGE = "images that are not in the file: left out"
SUMMARY = 160
"""Characters of the line that stands for a result once it is pruned."""

Images = Callable[[Image], Image | None]
"""Gives an image whose data lie elsewhere; None where they cannot be had."""


class Made(Struct, frozen=True):
    """An entry, and the id it had in the log it was exported from ("": none)."""

    entry: Known
    was: str = ""


def answer_entries(
    step: AnswerStep, records: Sequence[Answer], model: str, tally: Tally
) -> list[Made]:
    """Return the items of a response by *model*, then what it used."""
    made: list[Made] = []
    names = iter(step.call_ids)
    begins: bool | None = None  # whether reasoning stands before the first call
    for record in records:
        for part in record.parts:
            if isinstance(part, Thought) and begins is False:
                tally.lose(LATE_REASONING)
                continue
            if begins is None and isinstance(part, Thought | Called):
                begins = isinstance(part, Thought)
            item = _item(part, step.key, model, names)
            made.append(Made(ItemEntry(item=item), part.entry))
    last = records[-1]
    if last.usage is not None and not last.is_counted:
        stops = [record.stop for record in records if record.stop]
        made.append(Made(_usage(step.key, model, last, stops[-1] if stops else "")))
    if last.error:
        made.append(Made(_note("answer_error", last.error)))
    elif not made:
        made.append(Made(_note("empty_answer", last.stop)))
    return made


def _item(part: Part, response: str, model: str, names: Iterator[str]) -> Item:
    match part:
        case Said():
            return AssistantText(part.text, response, part.extra)
        case Thought():
            return Reasoning(
                part.text,
                response,
                model,
                signature=part.signature,
                redacted=part.redacted,
                extra=part.extra,
            )
        case Called():
            return ToolCall(
                next(names),
                part.name,
                part.arguments,
                response,
                incomplete=part.incomplete,
                extra=part.extra,
            )
        case Block():
            return Opaque(part.json, response)


def _usage(key: str, model: str, answer: Answer, stop: str) -> UsageEntry:
    return UsageEntry(
        response=key,
        model=model,
        stop_reason=stop or "unknown",
        usage=answer.usage,
        context_tokens=answer.context,
        cost_usd=answer.cost,
    )


def _note(kind: str, text: str) -> Custom:
    return Custom(kind=kind, json=msgspec.json.encode(text).decode())


def result_entry(
    call_id: str, call: Call, result: Result | None, images: Images, tally: Tally
) -> ItemEntry:
    """Return the answer to a call; without *result* one that says it is missing."""
    if result is None:
        item = ToolResult(call_id, load("imported_call"), is_error=True)
        return ItemEntry(item=item)
    if result.summary or not result.has_content:
        summary = result.summary
        content = result.text if result.has_content else None
    else:
        summary = summary_of(call, result.text)
        content = None if summary == result.text else result.text
    item = ToolResult(
        call_id,
        summary,
        content,
        is_error=result.is_error,
        referenced_files=call.paths if result.files is None else result.files,
        images=_images(result.images, images, tally),
    )
    return ItemEntry(item=item)


def summary_of(call: Call, text: str) -> str:
    """Return the line that stands for a result: what was called, and how it begins."""
    stripped = text.strip()
    if not stripped:
        return "(no output)"
    if call.paths:
        return short_line(f"{call.name} {', '.join(call.paths)}", SUMMARY)
    return short_line(stripped, SUMMARY)


def _images(
    found: tuple[Image, ...], images: Images, tally: Tally
) -> tuple[Image, ...]:
    kept = [image for each in found if (image := images(each)) is not None]
    tally.lose(NO_IMAGE, len(found) - len(kept))
    return tuple(kept)


def plain_entry(
    record: Record, model: str, images: Images, tally: Tally
) -> Known | None:
    """Return the entry of a record that needs nothing of others; None: there is none.

    *model* is the one that is asked at this place.
    """
    match record:
        case User(text=text, images=pictures, synthetic=synthetic):
            shown = _images(pictures, images, tally)
            return ItemEntry(item=UserText(text, shown, synthetic))
        case Told(kind=kind, text=text) if kind == SYSTEM_TEXT:
            return ItemEntry(item=SystemText(text))
        case Told(kind=kind, text=text):
            return CustomMessage(kind=kind, text=text)
        case Note(kind=kind, json=json):
            return Custom(kind=kind, json=json)
        case Measured() as used:
            return UsageEntry(
                response=used.key,
                model=used.model or model,
                stop_reason="unknown",
                usage=used.usage,
                context_tokens=used.context,
            )
        case ModelSet(model=model):
            return ModelChange(model=model)
        case Renamed(name=name):
            return SessionInfo(name=name)
        case Result(text=text, images=pictures):
            shown = _images(pictures, images, tally)
            told = fill("imported_result", text=text)
            return ItemEntry(item=UserText(told, shown, synthetic=True))
        case (
            Header()
            | Link()
            | Answer()
            | Compacted()
            | Summarised()
            | Cleared()
            | Labelled()
            | Own()
        ):
            return None


def details_of(record: Compacted | Summarised) -> FileDetails:
    return FileDetails(
        read_files=record.read_files, modified_files=record.modified_files
    )


def directives_of(record: Compacted) -> tuple[Directive, ...]:
    return tuple(Directive(text) for text in record.directives)
