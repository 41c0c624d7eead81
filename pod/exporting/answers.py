"""Responses as whole messages, also where a branch leaves one in its middle."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from pod.entries import AnyEntry, ItemEntry
from worker.items import AssistantText, Opaque, Reasoning, ToolCall


class Group(Struct):
    """Entries of one response that make one message, and the message's parent."""

    id: str
    parent: str | None
    response: str
    entries: list[ItemEntry]


class Answers:
    """Which entries of a log make one message.

    A response is one. Where a branch leaves it in its middle, what hangs there
    hangs from a copy of the part before.
    """

    def __init__(self, entries: Sequence[AnyEntry], leaf: str | None) -> None:
        self._places: dict[str, tuple[Group, int]] = {}
        self._begun: dict[str, Group] = {}
        self._copies: dict[str, Group] = {}
        self._given: set[str] = set()
        for entry in entries:
            if isinstance(entry, ItemEntry):
                self._take(entry)
        for entry in entries:
            if not self.goes_on(entry):
                self._copy(entry.parent)
        self._copy(leaf)

    def begun_by(self, id: str) -> Group | None:
        """Return the message that is written where this entry stands."""
        return self._begun.get(id)

    def goes_on(self, entry: AnyEntry) -> bool:
        """Whether *entry* is in one message with its parent."""
        place = self._places.get(entry.id)
        return place is not None and place[1] > 0

    def end(self, id: str | None) -> str | None:
        """Return the message that what hangs from entry *id* hangs from."""
        if id is None or id not in self._places:
            return id
        copy = self._copies.get(id)
        return self._places[id][0].id if copy is None else copy.id

    def copy_for(self, parent: str | None) -> Iterator[Group]:
        """Give the copy that something hanging from *parent* needs first, once."""
        if parent in self._copies and parent not in self._given:
            self._given.add(parent)
            yield self._copies[parent]

    def _take(self, entry: ItemEntry) -> None:
        item = entry.item
        if not isinstance(item, AssistantText | Reasoning | ToolCall | Opaque):
            return
        before = self._places.get(entry.parent or "")
        if before is None or before[0].response != item.response:
            group = Group(entry.id, entry.parent, item.response, [])
            self._begun[entry.id] = group
        elif before[1] == len(before[0].entries) - 1:
            group = before[0]
        else:
            old, at = before
            kept = old.entries[: at + 1]
            group = Group(entry.id, old.parent, item.response, kept)
            self._begun[entry.id] = group
        group.entries.append(entry)
        group.id = entry.id
        self._places[entry.id] = group, len(group.entries) - 1

    def _copy(self, parent: str | None) -> None:
        """Make a copy of the part up to *parent* where that is no message's end."""
        place = self._places.get(parent or "")
        if place is None or parent is None or parent in self._copies:
            return
        group, at = place
        if at < len(group.entries) - 1:
            kept = group.entries[: at + 1]
            self._copies[parent] = Group(
                f"{parent}c", group.parent, group.response, kept
            )
