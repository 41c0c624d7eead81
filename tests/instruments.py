"""Watches on trio's scheduler that step in at a chosen moment."""

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
