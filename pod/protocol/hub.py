"""Gives every event to everybody who listens, and never waits for any of them."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from pod.clock import now
from pod.entries import AnyEntry
from pod.events import Dropped, Event, PodLive, line, type_of
from pod.protocol.mailbox import PIECE, Mailbox
from pod.protocol.snapshot import Following
from pod.session import Session
from worker.events import Live, Warning

T = TypeVar("T")

PARTIAL = frozenset({"text_delta", "reasoning_delta", "tool_input_delta"})
"""Events that are sent only to those who ask for them."""


class Wanted(Struct, frozen=True):
    """Which events a listener wants: by name, or (None) all but the deltas.

    *partial* adds the deltas.
    """

    types: frozenset[str] | None = None
    partial: bool = False

    def takes(self, name: str) -> bool:
        if name in PARTIAL and self.partial:
            return True
        if self.types is None:
            return name not in PARTIAL
        return name in self.types


class Listener:
    """One listener: what it wants, and the mailbox it takes its lines from.

    Once it has *joined* the hub it can be dropped; it hears nothing before
    ``Hub.hear``.
    """

    def __init__(self, name: str, mailbox: Mailbox) -> None:
        self.name = name
        self.mailbox = mailbox
        self.wanted = Wanted(types=frozenset())
        self.is_patient = False
        """Live events are left out while it is slow, durable ones wait: nobody
        drops it, and the run is held up at its next commit."""


class _Group:
    """Listeners that hear the same, and what is gathered for all of them."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.members: list[Listener] = []
        self.is_patient = False
        self.lines: list[bytes] = []
        self.size = 0


class Hub:
    """One session's events on their way to all its listeners.

    Every method is sync and returns at once: a listener that does not read
    costs the run nothing. An event is made into a line once and gathered with
    others once for all who want the same; ``flush`` gives what is gathered to
    their mailboxes, in one piece that they share. Once more waits for a listener
    than may, it is dropped with a last line, and the others are warned; a person
    by *warn*.
    """

    def __init__(
        self,
        following: Following,
        *,
        leaf: Callable[[], str | None],
        warn: Callable[[str], None] = lambda text: None,
        clock: Callable[[], str] = now,
    ) -> None:
        self.session = following.session
        self.following = following
        self._leaf = leaf
        self._clock = clock
        self._warn = warn
        self._listeners: list[Listener] = []
        self._groups: list[_Group] = []
        self._takers: dict[str, tuple[_Group, ...]] = {}
        """Who wants an event of this name; made when it first comes."""
        self.has_some = False
        """Whether something is gathered."""
        self.tell: Callable[[], None] | None = None
        """Told when something is; of the task that flushes (pod/protocol/gathering.py)."""

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def seq(self) -> int:
        """The number of the last durable event that was given out."""
        return self.following.seq

    def join(self, listener: Listener) -> None:
        """Have *listener* among those that can be dropped; twice is fine."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def hear(self, listener: Listener, wanted: Wanted) -> None:
        """Give *listener* the events that are *wanted*, from here on, if it has joined."""
        self.mute(listener)
        listener.wanted = wanted
        if listener not in self._listeners:
            return
        group = self._group(listener)
        # What is gathered already comes before this, and is the others'.
        self._flush(group)
        if group not in self._groups:  # all who were in it were dropped just now
            self._groups.append(group)
            self._takers.clear()
        group.members.append(listener)

    def mute(self, listener: Listener) -> None:
        """Give *listener* what is gathered for it, and no more until ``hear``."""
        for group in self._groups:
            if listener in group.members:
                self._flush(group)
                if listener in group.members:
                    group.members.remove(listener)
                if not group.members and group in self._groups:
                    self._groups.remove(group)
                    self._takers.clear()
                return

    def leave(self, listener: Listener) -> None:
        """Give *listener* no more; leaving twice is fine."""
        self.mute(listener)
        if listener in self._listeners:
            self._listeners.remove(listener)

    def entry(self, entry: AnyEntry) -> None:
        """Give out a durable event."""
        self.following.entry(entry, self._leaf())
        self._give(entry, is_live=False)

    def live(self, event: Live | PodLive) -> None:
        """Give out a live event."""
        self.following.live(event)
        self._give(event, is_live=True)

    def text(self, event: Event) -> bytes:
        """Return the line of *event*."""
        run = self.following.run
        return line(event, session=self.session, at=self._clock(), run=run)

    def flush(self) -> None:
        """Give everybody what is gathered."""
        self.has_some = False
        for group in tuple(self._groups):
            self._flush(group)

    def flush_for(self, listener: Listener) -> None:
        """Give *listener*, and those who hear the same, what is gathered."""
        for group in self._groups:
            if listener in group.members:
                self._flush(group)
                return

    def drop(self, listener: Listener, why: str) -> None:
        """Take *listener* off the list, with a last line; warn the others."""
        if listener in self._listeners:
            self._take_off(listener, why)

    def _give(self, event: Event, *, is_live: bool) -> None:
        name = type_of(event)
        takers = self._takers.get(name)
        if takers is None:
            takers = tuple(g for g in self._groups if g.wanted.takes(name))
            self._takers[name] = takers
        if not takers:
            return
        text = self.text(event)
        for group in takers:
            if is_live and group.is_patient and group.members[0].mailbox.is_full:
                continue
            group.lines.append(text)
            group.size += len(text)
            if group.size >= PIECE:
                self._flush(group)
        if not self.has_some:
            self.has_some = True
            if self.tell is not None:
                self.tell()

    def _group(self, listener: Listener) -> _Group:
        """Return the group that *listener* goes into: a patient one has its own."""
        for group in self._groups:
            is_shared = not (group.is_patient or listener.is_patient)
            if is_shared and group.wanted == listener.wanted:
                return group
        group = _Group(listener.wanted)
        group.is_patient = listener.is_patient
        self._groups.append(group)
        self._takers.clear()
        return group

    def _flush(self, group: _Group) -> None:
        if not group.lines:
            return
        piece = b"".join(group.lines)
        group.lines, group.size = [], 0
        for listener in group.members:
            listener.mailbox.put(piece)
        if not group.is_patient:
            for slow in [each for each in group.members if each.mailbox.is_full]:
                self.drop(slow, "it reads too slowly")

    def _take_off(self, listener: Listener, why: str) -> None:
        self._listeners.remove(listener)
        last = f"dropped: {why}; connect again and go on behind the last seq"
        listener.mailbox.close(self.text(Dropped(last)))
        self.mute(listener)
        warning = f"{listener.name} was dropped: {why}"
        self._warn(warning)
        self._give(Warning(warning), is_live=True)


def hub_over(session: Session, model: str, *, warn: Callable[[str], None]) -> Hub:
    """Return the hub of *session*, whose next request asks *model*.

    It hears nothing by itself: give it what the session and its Pod tell.
    """
    following = Following(
        session=session.id,
        seq=session.seq,
        model=model,
        leaf=session.leaf,
        inputs=tuple(session.pending_inputs),
    )
    return Hub(following, leaf=lambda: session.leaf, warn=warn)


def to_all(*hear: Callable[[T], None]) -> Callable[[T], None]:
    """Return what tells each of *hear*, in this order."""

    def tell(told: T) -> None:
        for each in hear:
            each(told)

    return tell
