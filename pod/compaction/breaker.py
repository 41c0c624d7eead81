"""The circuit breaker: who keeps failing to summarise is left alone for a while."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pod.entries import AnyEntry, BreakerChange, Mode

MAX_FAILURES = 3
COOLDOWN = 600.0
"""Seconds."""

Refusal = Literal["open", "same_input"]
"""Why it is not asked: it failed too often, or on this very input."""

ASKING: tuple[Mode, ...] = ("worker", "summarize", "remote", "native")
"""The modes that ask somebody, each with a breaker of its own."""


class Breaker(Struct, frozen=True):
    """How often a *mode* failed in a row, and since when it is left alone.

    *opened_at* is when that began (RFC 3339), None while it is asked.
    *fingerprint* is of the input that failed last. A failure that does not count
    (cancelled, 429, 5xx, a broken connection) is not told to the breaker. Each
    change is kept in the log: as_entry, breaker_of.
    """

    failures: int = 0
    opened_at: str | None = None
    fingerprint: str = ""
    mode: Mode = "worker"

    def refusal(
        self, fingerprint: str, *, now: str, cooldown: float = COOLDOWN
    ) -> Refusal | None:
        """Return why the worker must not be asked with this input, None if it may.

        After *cooldown* seconds it may be asked once: half-open.
        """
        if self.is_open(now=now, cooldown=cooldown):
            return "open"
        if fingerprint and fingerprint == self.fingerprint:
            return "same_input"
        return None

    def is_open(self, *, now: str, cooldown: float = COOLDOWN) -> bool:
        """Whether the worker is left alone at *now*."""
        if self.opened_at is None:
            return False
        waited = _time(now) - _time(self.opened_at)
        # A clock that was set back must not keep it open for years.
        return timedelta() <= waited < timedelta(seconds=cooldown)

    def failed(
        self, fingerprint: str, *, now: str, max_failures: int = MAX_FAILURES
    ) -> "Breaker":
        """Return it after a failure that counts; the last allowed one opens it."""
        failures = self.failures + 1
        return Breaker(
            failures=failures,
            opened_at=now if failures >= max_failures else None,
            fingerprint=fingerprint,
            mode=self.mode,
        )

    def succeeded(self) -> "Breaker":
        """Return it closed."""
        return Breaker(mode=self.mode)

    def half_opened(self, *, by_hand: bool = False) -> "Breaker":
        """Return it after new user input, or after a person asked for a compaction.

        One attempt is allowed; if it fails, it is open again. *by_hand* allows
        the input that failed, too.
        """
        fingerprint = "" if by_hand else self.fingerprint
        return replace(self, opened_at=None, fingerprint=fingerprint)

    def after(self, entry: AnyEntry) -> "Breaker":
        """Return it as this entry of the log leaves it."""
        if not isinstance(entry, BreakerChange) or entry.mode != self.mode:
            return self
        return Breaker(entry.failures, entry.opened_at, entry.fingerprint, self.mode)

    def as_entry(self) -> BreakerChange:
        """Return the log entry that keeps it."""
        return BreakerChange(
            failures=self.failures,
            opened_at=self.opened_at,
            fingerprint=self.fingerprint,
            mode=self.mode,
        )


Breakers = Mapping[Mode, Breaker]
"""The breaker of each mode in ASKING."""


def breakers_of(path: Iterable[AnyEntry]) -> Breakers:
    """Return the breakers as the last changes on the path left them."""
    return breakers_after({mode: Breaker(mode=mode) for mode in ASKING}, path)


def breakers_after(breakers: Breakers, entries: Iterable[AnyEntry]) -> Breakers:
    """Return the breakers as *entries* leave them."""
    found = dict(breakers)
    for entry in entries:
        if isinstance(entry, BreakerChange) and entry.mode in found:
            found[entry.mode] = found[entry.mode].after(entry)
    return found


def breaker_of(path: Iterable[AnyEntry], mode: Mode = "worker") -> Breaker:
    """Return the breaker of *mode* as the last change on the path left it."""
    return breakers_of(path)[mode]


def _time(text: str) -> datetime:
    """Read a time of the log's; one that is none lies in the distant past."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
