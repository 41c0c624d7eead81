"""Two things at once on a Pod that stays, at any two moments, while its context fills."""

import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random

import trio
from msgspec import Struct, field
from msgspec.structs import replace

from pod.between_runs import Doors
from pod.branch_summary.summarizer import BranchSummarizer
from pod.compaction.opening import open_watch
from pod.compaction.watch import ContextWatch
from pod.entries import DeliveredEntry, HandedBack, InputEntry, ItemEntry
from pod.errors import Refused
from pod.live import LivePod
from pod.log import read_log
from pod.manifest import Manifest, PruneTable
from pod.pod import Stopped, Switched
from tests.soak.kills import clear, in_memory
from tests.soak.promises import broken, undelivered, unended
from tests.soak.story import TABLE_OF_STORIES, StoryPod, goes_on
from tests.soak.traced import Told, TracedDisk
from worker.scripted import ScriptedClient
from worker.turn import Setup

MOST_STEPS = 900
"""Steps of trio's within which both things happen."""
HUNG = 30.0
"""Seconds after which a race that has not ended never will."""


class Racer(Struct):
    """A Pod that stays, and what the two who race may do to it."""

    pod: StoryPod
    live: LivePod
    random: Random

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
    )
}
PAIRS = list(combinations_with_replacement(ACTS, 2))
"""All pairs; the compaction that comes by itself takes part in every one."""


class RaceFindings(Struct):
    """What came of races. *wrong* are promises broken, each with its seed."""

    pairs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """What was answered with a refusal, by the refusal's code."""
    entries: int = 0
    compactions: int = 0
    gone_on: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        codes = ", ".join(f"{n} {code}" for code, n in sorted(self.refused.items()))
        return (
            f"{self.pairs.total()} races of {len(self.pairs)} pairs, {self.entries}"
            f" entries, {self.compactions} compactions, refusals: {codes};"
            f" {self.gone_on} sessions gone on with; broken promises:"
            f" {len(self.wrong)}"
        )


def race_all(seeds: int, seed: int) -> RaceFindings:
    """Let every pair race with so many seeds."""
    found = RaceFindings()
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        for number in range(seeds):
            for pair in PAIRS:
                race(Path(folder), pair, f"{seed}/{number}", found)
    return found


def race(folder: Path, pair: tuple[str, str], seed: str, found: RaceFindings) -> None:
    """Let *pair* race once on a session of its own."""
    name = " x ".join(pair)
    random = Random(f"{name} {seed}")
    path = folder / "s.jsonl"
    disk = TracedDisk()
    try:
        problems = trio.run(_race, path, disk, pair, random, found)
        told = {op.seq: op.id for op in disk.trace if isinstance(op, Told)}
        problems += broken(path, told)
        problems += [f"in the stream: {each}" for each in unended(disk.stream)]
        entries = read_log(path).entries
        problems += undelivered(entries) + unaccounted(path)
        found.entries += len(entries)
        if random.random() < 0.1 and not problems:
            found.gone_on += 1
            problems = trio.run(goes_on, path)
    finally:
        clear(path)
    found.pairs[name] += 1
    found.wrong += [f"{problem} (race {name}, seed {seed})" for problem in problems]


def unaccounted(path: Path) -> list[str]:
    """Return the inputs that are neither delivered, handed back, nor waiting."""
    entries = read_log(path).entries
    given = {e.input for e in entries if isinstance(e, InputEntry)}
    delivered = {i for e in entries if isinstance(e, DeliveredEntry) for i in e.inputs}
    back = Counter(
        input for e in entries if isinstance(e, HandedBack) for input in e.inputs
    )
    strange = [f"{i} was never given" for i in sorted((delivered | {*back}) - given)]
    return strange + [f"{i} handed back {n} times" for i, n in back.items() if n > 1]


async def _race(
    path: Path,
    disk: TracedDisk,
    pair: tuple[str, str],
    random: Random,
    found: RaceFindings,
) -> list[str]:
    pod = StoryPod(path, disk, random, 0.0, least=(6, 700))
    live = LivePod(pod.pod, listen=pod.heard, doors=doors(pod))
    racer = Racer(pod, live, random)
    problems: list[str] = []

    async def act(name: str, start: trio.Event) -> None:
        await start.wait()
        try:
            await ACTS[name](racer)
        except Refused as error:
            found.refused[error.code] += 1
        except Stopped:
            found.refused["stopped"] += 1

    with trio.move_on_after(HUNG) as patience:
        async with trio.open_nursery() as nursery:
            await nursery.start(live.serve)
            await live.prompt("Fetch all.")
            starts = [trio.Event(), trio.Event()]
            steps = [random.randint(1, MOST_STEPS) for _ in starts]
            async with trio.open_nursery() as racers:
                for name, start in zip(pair, starts, strict=True):
                    racers.start_soon(act, name, start)
                await _start_at(starts, steps, live)
            await _settle(live)
            await live.shutdown()
    if patience.cancelled_caught:
        problems.append(f"hung in state {live.state}")
    found.compactions += len(pod.compactions)
    pod.close()
    return problems


async def _start_at(starts: list[trio.Event], steps: list[int], live: LivePod) -> None:
    """Set each event after so many steps of this task, one a step of all others."""
    for step in range(1, max(steps) + 1):
        for start, at in zip(starts, steps, strict=True):
            if step == at or (live.state == "idle" and step > 50):
                start.set()
        if all(start.is_set() for start in starts):
            return
        await trio.lowlevel.checkpoint()


async def _settle(live: LivePod) -> None:
    """Wait until nothing is under way any more."""
    quiet = 0
    while quiet < 20:
        quiet = quiet + 1 if live.state in ("idle", "paused") else 0
        await trio.lowlevel.checkpoint()


def doors(pod: StoryPod) -> Doors:
    """Return doors to models of other windows, and to a branch summariser."""

    def switch(name: str) -> Switched:
        window = {"small": 20_000, "large": 90_000}.get(name, 60_000)
        model = replace(pod.setup.model, id=name, window=window)
        setup = replace(
            pod.pod.setup, model=model, client=ScriptedClient(pod.policy, model)
        )

        def watching(asked: Setup | None = None) -> ContextWatch:
            return open_watch(
                Manifest(compaction=TABLE_OF_STORIES, prune=PruneTable(enabled=False)),
                pod.session,
                setup,
                scope=pod.scope,
                worker_model=model,
                files=pod.files,
                tell=pod.heard,
                maintenance=pod.pod.watch.maintenance,
                asked=asked,
            )

        old = pod.pod.setup
        return Switched(setup=setup, watch=watching(), before=watching(old))

    def summarizer() -> BranchSummarizer:
        return BranchSummarizer(pod.pod.setup, listen=pod.heard, reserve_tokens=4_000)

    return Doors(switch=switch, summarizer=summarizer)
