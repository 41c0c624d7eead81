"""What of a branch a summariser is given: the newest of it, as far as there is room."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    CustomMessage,
    ItemEntry,
)
from worker.compact.conversation import spoken
from worker.items import Item, SystemText, ToolResult

NEARLY_FULL = 0.9
"""The part of the budget up to which an older summary is still taken, although it
does not fit as a whole: it stands for more than any message does."""

NO_CONTENT = (
    "No content to summarize: nothing was said or done on the branch that is left;"
    " go without a summary"
)

LEAST_TOKENS = 64
"""Tokens below which a piece of a message says nothing."""


class Content(Struct, frozen=True):
    """The chosen messages as text, oldest first.

    *summarised* counts them, *left_out* the older ones there was no room for.
    *text* is "" where the branch holds nothing that somebody said or did.
    """

    text: str
    summarised: int
    left_out: int


class Said(Struct, frozen=True):
    """One message of a branch. *is_summary*: it stands for a whole stretch."""

    text: str
    is_summary: bool
    is_result: bool


def content_of(
    entries: Sequence[AnyEntry], *, budget: int, count: Callable[[str], int]
) -> Content:
    """Choose from a branch, newest first, what fits into *budget* tokens.

    The first message that does not fit ends it. Two are cut to what is left
    instead: a summary (of a compaction, of another branch) while less than
    NEARLY_FULL is used, and the newest message, so that there is something.
    Results of tools alone are nothing to summarise.
    """
    messages = list(_messages(entries))
    chosen: list[str] = []
    has_words = False
    used = 0
    for message in reversed(messages):
        room = budget - used
        text, tokens = message.text, count(message.text)
        is_cut = tokens > room
        if is_cut:
            is_wanted = not chosen or (
                message.is_summary and used < NEARLY_FULL * budget
            )
            text = cut_to(text, room, count) if is_wanted else ""
            if not text:
                break
        chosen.append(text)
        used += min(tokens, room)
        has_words = has_words or not message.is_result
        if is_cut:
            break
    if not has_words:
        return Content("", 0, len(messages))
    chosen.reverse()
    return Content("\n\n".join(chosen), len(chosen), len(messages) - len(chosen))


def has_content(entries: Sequence[AnyEntry]) -> bool:
    """Whether somebody said or did something on a branch, tools' results apart."""
    return any(not message.is_result for message in _messages(entries))


def cut_to(text: str, most: int, count: Callable[[str], int]) -> str:
    """Return the beginning of *text* in at most *most* tokens, "" where that is too few."""
    if most < LEAST_TOKENS:
        return ""
    mark = " […]"
    length = len(text)
    while length > 0:
        shown = text[:length] + mark
        tokens = count(shown)
        if tokens <= most:
            return shown
        length = min(length * most // tokens, length * 9 // 10)
    return ""


def _messages(entries: Sequence[AnyEntry]) -> Iterator[Said]:
    for entry in entries:
        match entry:
            case ItemEntry(item=item):
                yield from _said(item, is_summary=False)
            case CustomMessage(kind=kind, text=text):
                yield from _said(SystemText(f"[{kind}] {text}"), is_summary=False)
            case Compaction(summary=summary):
                what = f"Summary of what came before:\n{summary}"
                yield from _said(SystemText(what), is_summary=True)
            case BranchSummary(summary=summary):
                what = f"Summary of another branch that was left:\n{summary}"
                yield from _said(SystemText(what), is_summary=True)
            case _:
                pass


def _said(item: Item, *, is_summary: bool) -> Iterator[Said]:
    if text := spoken(item):
        yield Said(text, is_summary, isinstance(item, ToolResult))
