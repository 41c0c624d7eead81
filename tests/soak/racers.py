"""What races with what: things done to a Pod, to its session, and by its tools."""

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import get_args

import msgspec
import trio
from msgspec import Struct, field

from pod.entries import ItemEntry
from pod.hooks.hook import CAN_BLOCK
from pod.hooks.payloads import AnyPayload, HookEvent
from pod.live import LivePod
from tests.soak.commands import Command, orphan, stubborn
from tests.soak.deaf import Audience
from tests.soak.promises import lost
from tests.soak.second import SecondProcess
from tests.soak.story import StoryPod
from tests.soak.traced import TracedDisk
from tools.base import Call, ToolOutput
from tools.bash import Bash

MOST_PATIENCE = 0.02
"""Seconds that are waited for a hook that hangs, at most."""
MOST_HANGS = 3
"""How often a hook hangs; a run may ask it sixty times."""


class RacingPod(StoryPod):
    """A Pod some of whose tool calls are commands, besides."""

    def __init__(self, path: Path, disk: TracedDisk, random: Random) -> None:
        super().__init__(path, disk, random, 0.0, calls=(5, 5), size=(1_050, 1_200))
        self.commands: deque[Command] = deque()
        """What the next tool calls run."""
        self.commands_run = 0
        self.is_lasting = trio.Event()
        """Set when a command runs, or a hook hangs."""
        self._bash = Bash(path.parent)

    async def _fetch(self, call: Call) -> ToolOutput:
        output = await super()._fetch(call)
        if self.commands:
            self.commands_run += 1
            self.is_lasting.set()
            await self._bash.run(msgspec.json.encode(self.commands.popleft()), call)
        return output


class Racer(Struct):
    """A Pod that stays, and what those who race may do to it."""

    pod: RacingPod
    live: LivePod
    disk: TracedDisk
    random: Random
    second: SecondProcess
    audience: Audience
    over: trio.Event = field(default_factory=trio.Event)
    """Until then hooks hang."""
    over_in_threads: threading.Event = field(default_factory=threading.Event)
    hung: int = 0
    wrong: list[str] = field(default_factory=list)

    async def prompt(self) -> None:
        await self.live.prompt(self._text("Prompt"))

    async def steer(self) -> None:
        self.live.steer(self._text("Steer"))

    async def follow_up(self) -> None:
        self.live.follow_up(self._text("Follow"))

    async def compact(self) -> None:
        await self.live.compact(mode=self.random.choice(("worker", "mechanical", None)))

    async def abort_compaction(self) -> None:
        self.live.abort_compaction()

    async def navigate(self) -> None:
        await self.live.navigate(
            self._any_entry(), summarize=self.random.random() < 0.5, label="left"
        )

    async def cancel(self) -> None:
        await self.live.interrupt()

    async def pause(self) -> None:
        await self.live.pause()

    async def resume(self) -> None:
        await self.live.resume()

    async def set_model(self) -> None:
        await self.live.set_model(self.random.choice(("m", "small", "large")))

    async def shutdown(self) -> None:
        await self.live.shutdown()

    async def second_process(self) -> None:
        """Another process would write to the session, reads it, and copies it."""
        told = self.disk.acknowledged
        seen = await trio.to_thread.run_sync(self.second.look, self.pod.path)
        if "in use by" not in seen.refused:
            self.wrong.append(f"a second process may write: {seen.refused!r}")
        self.wrong += [
            f"for a second process: {each}"
            for each in [*seen.wrong, *lost(seen.ids, told)]
        ]

    async def never_read(self) -> None:
        """Two more listen, and never read."""
        self.audience.add_deaf(self.random)

    async def hang(self) -> None:
        """A hook that does not answer is added."""
        event: HookEvent = self.random.choice(get_args(HookEvent))
        blocks = event in CAN_BLOCK and self.random.random() < 0.3
        left = self.random.randint(1, MOST_HANGS)

        async def hanging(payload: AnyPayload) -> None:
            nonlocal left
            left -= 1
            if left >= 0:
                self.hung += 1
                self.pod.is_lasting.set()
                await self.over.wait()

        def hanging_in_thread(payload: AnyPayload) -> None:
            self.hung += 1
            self.over_in_threads.wait()

        self.pod.hooks.add(
            event,
            self.random.choice((hanging, hanging, hanging_in_thread)),
            timeout=self.random.uniform(0.001, MOST_PATIENCE),
            on_failure="block" if blocks else None,
        )

    async def keep_hanging(self) -> None:
        """Let hooks go once this is cancelled, be it by nobody's patience with them."""
        try:
            await trio.sleep_forever()
        finally:
            self.over.set()
            self.over_in_threads.set()

    async def stubborn(self) -> None:
        """The next tool call ignores SIGTERM."""
        await self._run(stubborn(self.random))

    async def orphan(self) -> None:
        """The next tool call leaves a child behind."""
        await self._run(orphan(self.random))

    async def _run(self, command: Command) -> None:
        self.pod.commands.append(command)
        if self.live.state == "idle":
            await self.prompt()

    def _text(self, word: str) -> str:
        return f"{word} {self.random.getrandbits(32):08x}."

    def _any_entry(self) -> str | None:
        path = self.pod.session.recent_entries()
        ids = [entry.id for entry in path if isinstance(entry, ItemEntry)]
        return self.random.choice([*ids, None])


Act = Callable[[Racer], Awaitable[None]]
ACTS: dict[str, Act] = {
    act.__name__: act
    for act in (
        Racer.prompt,
        Racer.steer,
        Racer.follow_up,
        Racer.compact,
        Racer.abort_compaction,
        Racer.navigate,
        Racer.cancel,
        Racer.pause,
        Racer.resume,
        Racer.set_model,
        Racer.shutdown,
        Racer.second_process,
        Racer.never_read,
        Racer.hang,
        Racer.stubborn,
        Racer.orphan,
    )
}
PAIRS = list(combinations_with_replacement(ACTS, 2))
"""All pairs; the compaction that comes by itself takes part in every one."""
LASTING = ("hang", "stubborn", "orphan")
"""What takes its time: few steps of trio's, but milliseconds."""
