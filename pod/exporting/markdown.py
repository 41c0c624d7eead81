"""A session as a transcript for people: Markdown, the path to the leaf."""

import re
from collections.abc import Iterator

import msgspec

from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    CustomMessage,
    ItemEntry,
    ModelChange,
    Notice,
    RunEnd,
    RunStart,
)
from pod.exporting.source import Exported
from tools.text import clean
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

_FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


def lines(session: Exported) -> Iterator[str]:
    """Give the transcript, piece by piece."""
    header = session.header
    yield f"# {_one_line(session.name or f'Session {header.id}')}\n\n"
    yield f"Session {header.id}, begun {header.at} in `{_one_line(header.cwd)}`\n"
    names = {
        entry.item.call_id: entry.item.name
        for entry in session.path
        if isinstance(entry, ItemEntry) and isinstance(entry.item, ToolCall)
    }
    response = ""
    for entry in session.path:
        if isinstance(entry, ItemEntry):
            said = _response(entry.item)
            if said and said != response:
                yield "\n## Assistant\n"
            response = said or response
            if not said:
                response = ""
            yield from _item(entry.item, names)
        else:
            yield from _entry(entry)


def _response(item: Item) -> str:
    match item:
        case AssistantText() | Reasoning() | ToolCall() | Opaque():
            return item.response
        case SystemText() | UserText() | ToolResult():
            return ""


def _item(item: Item, names: dict[str, str]) -> Iterator[str]:
    match item:
        case UserText(text=text):
            yield f"\n## {'Pod, as the user' if item.synthetic else 'User'}\n"
            yield f"\n{_shown(text)}\n"
            yield from _images(len(item.images))
        case AssistantText(text=text):
            yield f"\n{_shown(text)}\n"
        case Reasoning(text=text):
            if text.strip():
                quoted = "\n".join(f"> {line}" for line in _shown(text).splitlines())
                yield f"\n{quoted}\n"
        case ToolCall(name=name, arguments=arguments):
            yield f"\n**{_one_line(name)}**\n\n{_fenced(_shown(_pretty(arguments)), 'json')}\n"
        case ToolResult():
            name = _one_line(names.get(item.call_id, "call"))
            what = "Error" if item.is_error else "Result"
            text = item.summary if item.content is None else item.content
            yield f"\n### {what} of {name}\n\n{_fenced(_shown(text))}\n"
            yield from _images(len(item.images))
        case SystemText(text=text):
            yield f"\n## System\n\n{_shown(text)}\n"
        case Opaque():
            yield "\n*(a block of the provider's own)*\n"


def _entry(entry: AnyEntry) -> Iterator[str]:
    match entry:
        case CustomMessage(kind=kind, text=text):
            yield f"\n## System: {_one_line(kind)}\n\n{_shown(text)}\n"
        case Compaction():
            after = f", {entry.tokens_after:,} after" if entry.tokens_after else ""
            yield (
                f"\n---\n\n## Compaction\n\n*{entry.tokens_before:,} tokens before{after}*"
                f"\n\n{_shown(entry.summary)}\n\n---\n"
            )
        case BranchSummary(summary=summary):
            yield f"\n## What was done on the branch that was left\n\n{_shown(summary)}\n"
        case ModelChange(model=model):
            yield f"\n*From here on: {_one_line(model)}*\n"
        case RunStart(model=model):
            yield f"\n*A run with {_one_line(model)} begins.*\n"
        case RunEnd():
            yield f"\n*The run {entry.outcome} ({_one_line(entry.reason)}).*\n"
        case Notice(message=message):
            yield f"\n*{_one_line(message)}*\n"
        case _:
            pass


def _images(count: int) -> Iterator[str]:
    if count:
        yield f"\n*({count} image{'s' if count > 1 else ''})*\n"


def _shown(text: str) -> str:
    return clean(text).text.rstrip()


def _one_line(text: str) -> str:
    return " ".join(clean(text).text.split())


def _pretty(arguments: str) -> str:
    try:
        return msgspec.json.format(arguments, indent=2)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments


def _fenced(text: str, kind: str = "") -> str:
    """Return a block whose fence is longer than any in the text."""
    longest = max((len(match[1]) for match in _FENCE.finditer(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"
