"""What a Pod that is driven from outside can do: the protocol's view of it."""

from typing import Protocol

from pod.compaction.job import Outcome
from pod.entries import Mode
from pod.events import Standing


class Summarised(Protocol):
    """The entry of a branch summary."""

    @property
    def id(self) -> str: ...


class Moved(Protocol):
    """Where a navigation led."""

    @property
    def text(self) -> str: ...
    @property
    def old_leaf(self) -> str | None: ...
    @property
    def new_leaf(self) -> str | None: ...
    @property
    def entry(self) -> Summarised | None: ...
    @property
    def cancelled(self) -> bool: ...


class Driven(Protocol):
    """A Pod that stays (pod/live.py). Each method may raise Refused."""

    @property
    def state(self) -> Standing: ...

    async def settled(self) -> None: ...

    async def prompt(self, text: str) -> str: ...

    def steer(self, text: str) -> str: ...

    def follow_up(self, text: str) -> str: ...

    async def interrupt(self) -> None: ...

    async def pause(self) -> None: ...

    async def resume(self) -> str: ...

    async def compact(
        self, instructions: str = "", mode: Mode | None = None
    ) -> Outcome: ...

    def abort_compaction(self) -> bool: ...

    async def navigate(
        self,
        target: str | None,
        *,
        summarize: bool | None,
        instructions: str,
        replace_instructions: bool,
        label: str,
    ) -> Moved: ...

    async def fork(self, entry: str | None) -> str: ...

    async def set_model(self, name: str) -> None: ...

    async def shutdown(self) -> None: ...
