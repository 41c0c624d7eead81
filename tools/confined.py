"""A scope whose files are opened by a thread that can open nothing else.

The scope alone holds opens below its roots. Where the kernel has Landlock, the
thread that does them has given up everything but reading there, too: a fault in
the scope would open nothing outside either.
"""

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

import trio
from msgspec import Struct

from tools.base import ToolError
from tools.landlock import READ, Ruleset, abi
from tools.scope import Scope

T = TypeVar("T")

LAST_SECONDS = 1.0
"""How long an open that hangs (a disk that is gone) is waited for in the end."""


class Reading(Struct, frozen=True):
    """A scope to read in, and what holds the thread that opens its files.

    *confinement* is a word: "landlock", or "none"; *detail* says more.
    """

    scope: Scope
    confinement: str
    detail: str


@asynccontextmanager
async def confined(scope: Scope) -> AsyncIterator[Reading]:
    """Give *scope* for reading, its files opened by a confined thread.

    The thread ends with the block; an open that hangs is left behind.
    """
    opener = _Opener(scope)
    try:
        confinement, detail = await trio.to_thread.run_sync(opener.started)
        yield Reading(scope.reading(opener), confinement, detail)
    finally:
        opener.end()
        with trio.move_on_after(LAST_SECONDS, shield=True):
            await trio.to_thread.run_sync(opener.join, abandon_on_cancel=True)


class _Opener:
    """A thread that does one thing after the other, as it is asked to."""

    def __init__(self, scope: Scope) -> None:
        self._anchors = scope.anchors
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._has_ended = False
        self._lock = Lock()
        self._start: Future[tuple[str, str]] = Future()
        # A daemon: it must not keep the process alive where an open hangs.
        self._thread = Thread(target=self._run, name="opener", daemon=True)
        self._thread.start()

    def __call__(self, act: Callable[[], T], /) -> T:
        """Have the thread call *act*; wait for its result.

        Raises what *act* raises, and ToolError once the thread has ended.
        """
        future: Future[T] = Future()

        def task() -> None:
            try:
                future.set_result(act())
            except BaseException as error:  # noqa: BLE001  raised again by whoever waits
                future.set_exception(error)

        with self._lock:  # or a task could come behind the end, and never be done
            if self._has_ended:
                raise ToolError("not read: the compaction has ended")
            self._tasks.put(task)
        return future.result()

    def started(self) -> tuple[str, str]:
        """Wait until the thread is confined; say by what, or why it is not."""
        return self._start.result()

    def end(self) -> None:
        """Let the thread end behind what it was asked for."""
        with self._lock:
            self._has_ended = True
            self._tasks.put(None)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        self._start.set_result(self._confine())
        while (task := self._tasks.get()) is not None:
            task()

    def _confine(self) -> tuple[str, str]:
        version = abi()
        if version == 0:
            return "none", "this kernel has no Landlock; the scope holds it alone"
        try:
            with Ruleset() as rules:
                for anchor in self._anchors:
                    rules.allow(anchor, READ)
                rules.restrict_thread()
        except OSError as error:
            return "none", f"Landlock refused: {error.strerror}"
        return "landlock", f"ABI {version}: reading below the roots, nothing else"
