"""The head of a history as a record that fits: coarser the older it is.

A record, not a conversation: a model that gets messages role by role goes on
with them. What tools gave is there as its summary alone, calls by name, no
reasoning. Entries are numbered, so that what is left out shows.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from msgspec import Struct

from worker.compact.escape import escape
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

Kind = Literal["user", "assistant", "system", "tool"]
Detail = Literal[0, 1, 2, 3]
"""How much of an entry is shown: nothing, a few words, the gist, all."""

Count = Callable[[str], int]


class Entry(Struct, frozen=True):
    """One thing that happened. *name* is the tool's."""

    kind: Kind
    text: str
    name: str = ""


GIST: dict[Kind, tuple[int, int]] = {
    "user": (400, 1_600),
    "assistant": (100, 400),
    "system": (100, 400),
    "tool": (80, 240),
}
"""Characters shown of an entry of each kind at detail 1 and 2."""

LEAST_WIDTH = 200
MOST_NAMES = 8
_NAME_CHARS = 40
_TRIES = 6


def entries_of(items: Iterable[Item]) -> list[Entry]:
    """Return the record of *items*: a call and its result are one entry."""
    entries: list[Entry] = []
    calls: dict[str, int] = {}
    for item in items:
        match item:
            case UserText(text, images, synthetic):
                kind: Kind = "system" if synthetic else "user"
                entries.append(Entry(kind, text + " [image]" * len(images)))
            case SystemText(text):
                entries.append(Entry("system", text))
            case AssistantText(text):
                if text.strip():
                    entries.append(Entry("assistant", text))
            case ToolCall(call_id, name):
                calls[call_id] = len(entries)
                entries.append(Entry("tool", "not answered", name))
            case ToolResult(call_id, summary, images=images, is_error=is_error):
                text = summary + " [image]" * len(images)
                text = f"[error] {text}" if is_error else text
                at = calls.pop(call_id, None)
                if at is None:
                    entries.append(Entry("tool", text, "(unknown)"))
                else:
                    entries[at] = Entry("tool", text, entries[at].name)
            case Reasoning() | Opaque():
                pass
    return entries


def overview(items: Iterable[Item], max_tokens: int, count: Count) -> str:
    """Return the record of *items* in at most *max_tokens*, "" where none fits."""
    entries = entries_of(items)
    goal = max_tokens
    for _ in range(_TRIES):
        text = _render(entries, details(entries, goal, count), max_tokens)
        over = count(text) - max_tokens
        if over <= 0:
            return text
        # The tokens of the parts do not quite add up to those of the whole.
        goal -= over + goal // 50 + 1
    bare = _header(entries, 0)
    return bare if count(bare) <= max_tokens else ""


def details(entries: Sequence[Entry], max_tokens: int, count: Count) -> list[Detail]:
    """Decide how much of each entry is shown, so that all cost about *max_tokens*.

    Of the user's entries none is shown in more detail than a newer one, except
    the first, which says what it is all about; nor is it of the others. In
    this order, newest first, as far as it goes: the gist of what the user
    said; that of the rest, with half of what is left; the user's words in full,
    the rest in full, each with half again; then more of all in a few words.
    """
    plan = _Plan(entries, max_tokens, count)
    users = [i for i, entry in enumerate(entries) if entry.kind == "user"][::-1]
    rest = [i for i, entry in enumerate(entries) if entry.kind != "user"][::-1]
    plan.raise_to(1, users[-1:], share=1.0)
    plan.raise_to(1, users, share=0.6)
    plan.raise_to(2, rest, share=0.5)
    plan.raise_to(2, users, share=0.5)
    plan.raise_to(3, users, share=0.5)
    plan.raise_to(3, rest, share=0.5)
    plan.raise_to(1, rest, share=0.5)
    plan.raise_to(1, users, share=1.0)
    return plan.details


class _Plan:
    """Details under way, and the tokens that are left."""

    def __init__(self, entries: Sequence[Entry], max_tokens: int, count: Count) -> None:
        self._entries = entries
        self._count = count
        self._width = max_tokens
        self._left = max_tokens - count(_header(entries, len(entries))) - 1
        self.details: list[Detail] = [0] * len(entries)

    def raise_to(self, detail: Detail, indices: Iterable[int], *, share: float) -> None:
        """Show the entries in *detail*, until *share* of what is left is spent."""
        room = int(self._left * share)
        for index in indices:
            if self.details[index] >= detail:
                continue
            more = self._cost(index, detail) - self._cost(index, self.details[index])
            if more > room:
                break
            self.details[index] = detail
            room -= more
            self._left -= more

    def _cost(self, index: int, detail: Detail) -> int:
        shown = _show(index + 1, self._entries[index], detail, self._width)
        return self._count(shown) + 1 if shown else 0


def _render(entries: Sequence[Entry], shown: Sequence[Detail], width: int) -> str:
    texts = [
        _show(number, entry, detail, width)
        for number, (entry, detail) in enumerate(zip(entries, shown, strict=True), 1)
    ]
    there = [text for text in texts if text]
    return "\n".join([_header(entries, len(there)), *there])


def _header(entries: Sequence[Entry], shown: int) -> str:
    names = Tally(entry.name for entry in entries if entry.kind == "tool")
    most = [
        f"{_one_line(n, _NAME_CHARS)} {t}" for n, t in names.most_common(MOST_NAMES)
    ]
    tools = f" Tool calls: {', '.join(most)}." if most else ""
    return escape(f"({shown} of {len(entries)} entries are shown, by number.{tools})")


def _show(number: int, entry: Entry, detail: Detail, width: int) -> str:
    """Return an entry as it stands in the record.

    Lines after its first are indented: text at the margin is the record's own.
    """
    if detail == 0:
        return ""
    full = max(LEAST_WIDTH, 2 * width if entry.kind == "user" else width)
    most = full if detail == 3 else min(full, GIST[entry.kind][detail - 1])
    if entry.kind == "tool":
        label = f"tool {_one_line(entry.name, _NAME_CHARS)}"
        text = _one_line(entry.text, most)
    else:
        label = entry.kind
        text = _clip(entry.text.strip(), most)
        text = "\n    ".join(text.splitlines()) if detail > 1 else _one_line(text, most)
    return escape(f"[{number}] {label}: {text}")


def _one_line(text: str, most: int) -> str:
    return _clip(" ".join(_clip(text, 4 * most).split()), most)


def _clip(text: str, most: int) -> str:
    """Return *text* in at most about *most* characters: its beginning and its end."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]} […] {text[len(text) - tail :]}"
