"""Watches on trio's scheduler that step in at a chosen moment."""

from collections.abc import Iterable

import trio


class CancelAt(trio.abc.Instrument):
    """Cancels a scope before the *number*-th step that any task makes."""

    def __init__(self, scope: trio.CancelScope, number: int) -> None:
        self._scope = scope
        self._left = number
        self.has_come = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self.has_come = True
            self._scope.cancel()


class SetAt(trio.abc.Instrument):
    """Sets events, each before the step of any task that has its number."""

    def __init__(self, moments: Iterable[tuple[int, trio.Event]]) -> None:
        self._moments = sorted(moments, key=lambda moment: -moment[0])
        self._step = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step += 1
        while self._moments and self._moments[-1][0] <= self._step:
            self._moments.pop()[1].set()
