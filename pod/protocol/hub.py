"""Gives every event to everybody who listens, and never waits for any of them."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from pod.clock import now
from pod.entries import AnyEntry
from pod.events import Dropped, Event, PodLive, line, type_of
from pod.protocol.mailbox import Mailbox
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

    While *is_replaying* it is given nothing: what is durable it reads from the
    log itself, and what is live it has missed.
    """

    def __init__(self, name: str, mailbox: Mailbox) -> None:
        self.name = name
        self.mailbox = mailbox
        self.wanted = Wanted()
        self.is_replaying = False
        self.is_patient = False
        """Live events are left out while it is slow, durable ones wait: nobody
        drops it, and the run is held up at its next commit."""

    def offer(self, name: str, text: Callable[[], bytes], *, is_live: bool) -> None:
        """Put an event into the mailbox, if it is wanted."""
        if self.is_replaying or not self.wanted.takes(name):
            return
        if is_live and self.is_patient and self.mailbox.is_full:
            return
        self.mailbox.put(text())


class Hub:
    """One session's events on their way to all its listeners.

    Every method is sync and returns at once: a listener that does not read
    costs the run nothing. Once more waits for it than may, it is dropped with
    a last line, and the others are warned; a person by *warn*.
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

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def seq(self) -> int:
        """The number of the last durable event that was given out."""
        return self.following.seq

    def join(self, listener: Listener) -> None:
        """Give *listener* the events from here on."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Give *listener* no more; leaving twice is fine."""
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

    def drop(self, listener: Listener, why: str) -> None:
        """Take *listener* off the list, with a last line; warn the others."""
        if listener in self._listeners:
            self._take_off(listener, why)
            self._drop_slow()

    def _give(self, event: Event, *, is_live: bool) -> None:
        self._offer(event, is_live=is_live)
        self._drop_slow()

    def _offer(self, event: Event, *, is_live: bool) -> None:
        name, text = type_of(event), _Once(lambda: self.text(event))
        for listener in self._listeners:
            listener.offer(name, text, is_live=is_live)

    def _drop_slow(self) -> None:
        # Warning the others may be what fills the mailbox of the next one.
        while slow := next(filter(_is_slow, self._listeners), None):
            self._take_off(slow, "it reads too slowly")

    def _take_off(self, listener: Listener, why: str) -> None:
        self._listeners.remove(listener)
        last = f"dropped: {why}; connect again and go on behind the last seq"
        listener.mailbox.close(self.text(Dropped(last)))
        warning = f"{listener.name} was dropped: {why}"
        self._warn(warning)
        self._offer(Warning(warning), is_live=True)


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


def _is_slow(listener: Listener) -> bool:
    return listener.mailbox.is_full and not listener.is_patient


class _Once:
    """Makes a line when it is first wanted, and never again."""

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make = make
        self._line: bytes | None = None

    def __call__(self) -> bytes:
        if self._line is None:
            self._line = self._make()
        return self._line
