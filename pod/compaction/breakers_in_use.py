"""The circuit breakers while a compaction is under way."""

from collections.abc import Sequence

from pod.compaction.breaker import Breaker, Breakers, Refusal
from pod.entries import BreakerChange, Mode


class BreakersInUse:
    """Who may be asked with the input called *fingerprint*, and who has failed.

    *by_hand* lets everybody be asked once, whatever failed before.
    """

    def __init__(
        self,
        breakers: Breakers,
        fingerprint: str,
        *,
        by_hand: bool,
        max_failures: int,
        cooldown: float,
    ) -> None:
        self._breakers = {
            mode: breaker.half_opened(by_hand=True) if by_hand else breaker
            for mode, breaker in breakers.items()
        }
        self._fingerprint = fingerprint
        self._max_failures = max_failures
        self._cooldown = cooldown

    def refusals(self, now: str) -> dict[Mode, Refusal]:
        """Return who must not be asked at *now*, and why."""
        found = {
            mode: breaker.refusal(self._fingerprint, now=now, cooldown=self._cooldown)
            for mode, breaker in self._breakers.items()
        }
        return {mode: why for mode, why in found.items() if why is not None}

    def failed(self, mode: Mode, now: str) -> list[BreakerChange]:
        """Take note that *mode* failed; return what the log is told of it."""
        if mode not in self._breakers:
            return []
        changed = self._breakers[mode].failed(
            self._fingerprint, now=now, max_failures=self._max_failures
        )
        self._breakers[mode] = changed
        return [changed.as_entry()]

    def succeeded(self, mode: Mode) -> list[BreakerChange]:
        """Return what the log is told once *mode* has succeeded."""
        breaker = self._breakers.get(mode)
        if breaker is None or breaker == Breaker(mode=mode):
            return []
        return [breaker.succeeded().as_entry()]

    def worst(self, rungs: Sequence[Mode], now: str) -> tuple[int, bool]:
        """Return the most failures of one of *rungs*, and whether it is left alone."""
        asked = [self._breakers[mode] for mode in rungs if mode in self._breakers]
        worst = max(asked, key=_failures, default=self._breakers["worker"])
        return worst.failures, worst.is_open(now=now, cooldown=self._cooldown)


def _failures(breaker: Breaker) -> int:
    return breaker.failures
