"""Two things at once on a Pod that stays, at any two moments, while its context fills."""

import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from operator import itemgetter
from pathlib import Path
from random import Random
from traceback import format_exception

import trio
from msgspec import Struct, field
from msgspec.structs import replace

from pod.between_runs import Doors
from pod.branch_summary.summarizer import BranchSummarizer
from pod.compaction.opening import open_watch
from pod.compaction.watch import ContextWatch
from pod.entries import AnyEntry, DeliveredEntry, HandedBack, InputEntry
from pod.errors import Refused, SessionError
from pod.live import LivePod
from pod.log import read_log
from pod.manifest import Manifest, PruneTable
from pod.pod import Stopped, Switched
from tests.instruments import SetAt
from tests.soak.deaf import Audience
from tests.soak.kills import clear, in_memory
from tests.soak.promises import broken, undelivered, unended
from tests.soak.racers import ACTS, LASTING, PAIRS, Racer, RacingPod
from tests.soak.second import SecondProcess, second_process
from tests.soak.story import TABLE_OF_STORIES, goes_on
from tests.soak.traced import TracedDisk
from tools.proc import children, look_at
from worker.scripted import ScriptedClient
from worker.turn import Setup

MOST_STEPS = 200
"""Steps of trio's, of any task, within which both things happen: so many as a run has
from its prompt to its end, with the compaction that comes by itself."""
WITHIN = 0.5
"""How often the second thing happens while a command runs, or a hook hangs."""
MOST_DELAY = 0.03
"""Seconds after the start of that, at most."""
HUNG = 30.0
"""Seconds after which a race that has not ended never will."""


class RaceFindings(Struct):
    """What came of races. *wrong* are promises broken, each with its seed."""

    pairs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """What was answered with a refusal, by the refusal's code."""
    entries: int = 0
    compactions: int = 0
    commands: int = 0
    hung: int = 0
    """How often a hook did not answer."""
    dropped: int = 0
    """Listeners that never read and were given up."""
    gone_on: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        codes = ", ".join(f"{n} {code}" for code, n in sorted(self.refused.items()))
        return (
            f"{self.pairs.total()} races of {len(self.pairs)} pairs, {self.entries}"
            f" entries, {self.compactions} compactions, {self.commands} commands,"
            f" {self.hung} hooks hung, {self.dropped} listeners dropped; refusals:"
            f" {codes}; {self.gone_on} sessions gone on with; broken promises:"
            f" {len(self.wrong)}"
        )


def race_all(seeds: int, seed: int, first: int = 0) -> RaceFindings:
    """Let every pair race with so many seeds, from the *first* of *seed*'s on."""
    found = RaceFindings()
    with tempfile.TemporaryDirectory(dir=in_memory()) as folder:
        (races := Path(folder, "races")).mkdir()
        with second_process(Path(folder, "forks")) as second:
            for number in range(first, first + seeds):
                for pair in PAIRS:
                    race(races, pair, f"{seed}/{number}", second, found)
    return found


def race(
    folder: Path,
    pair: tuple[str, str],
    seed: str,
    second: SecondProcess,
    found: RaceFindings,
) -> None:
    """Let *pair* race once on a session of its own."""
    name = " x ".join(pair)
    random = Random(f"{name} {seed}")
    path = folder / "s.jsonl"
    disk = TracedDisk()
    before = {*children(os.getpid())}
    try:
        try:
            problems = trio.run(_race, path, disk, pair, random, second, found)
        except Exception as error:  # noqa: BLE001  to be told with its seed
            problems = ["raised: " + "".join(format_exception(error))]
        problems += left_running(before)
        problems += broken(path, disk.acknowledged)
        problems += [f"in the stream: {each}" for each in unended(disk.stream)]
        entries = read_log(path).entries
        problems += undelivered(entries) + unaccounted(entries)
        found.entries += len(entries)
        if random.random() < 0.1 and not problems:
            found.gone_on += 1
            problems = trio.run(goes_on, path)
    finally:
        clear(path)
    found.pairs[name] += 1
    found.wrong += [f"{problem} (race {name}, seed {seed})" for problem in problems]


def left_running(before: set[int]) -> list[str]:
    """Return our children that were not there *before*.

    What a command leaves behind becomes our child, wherever it went.
    """
    left = [look_at(pid) for pid in children(os.getpid()) if pid not in before]
    return [
        f"left {'unburied' if process.is_dead else 'running'}: {process.name}"
        for process in left
        if process is not None
    ]


def unaccounted(entries: Sequence[AnyEntry]) -> list[str]:
    """Return the inputs that are neither delivered, handed back, nor waiting."""
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
    second: SecondProcess,
    found: RaceFindings,
) -> list[str]:
    pod = RacingPod(path, disk, random)
    audience = Audience(pod)
    live = LivePod(pod.pod, listen=pod.heard, doors=doors(pod))
    racer = Racer(pod, live, disk, random, second, audience)

    async def act(name: str, start: trio.Event) -> None:
        await start.wait()
        try:
            await ACTS[name](racer)
        except Refused as error:
            found.refused[error.code] += 1
        except Stopped:
            found.refused["stopped"] += 1
        except SessionError as error:
            racer.wrong.append(f"{name} failed: {error}")

    with trio.move_on_after(HUNG) as patience:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(racer.keep_hanging)
            if "never_read" in pair:
                await nursery.start(audience.serve, live, path)
            await nursery.start(live.serve)
            await live.prompt("Fetch all.")
            starts = [trio.Event(), trio.Event()]
            async with trio.open_nursery() as racers:
                for name, start in zip(pair, starts, strict=True):
                    racers.start_soon(act, name, start)
                lasting = [n for n, name in enumerate(pair) if name in LASTING]
                if lasting and random.random() < WITHIN:
                    first = random.choice(lasting)
                    order = (starts[first], starts[1 - first])
                    await _start_within(order, random, racer)
                else:
                    await _start_at_steps(starts, random, live)
            await live.settled()
            await live.shutdown()
            nursery.cancel_scope.cancel()
    if patience.cancelled_caught:
        racer.wrong.append(f"hung in state {live.state}")
    found.compactions += len(pod.compactions)
    found.commands += pod.commands_run
    found.hung += racer.hung
    found.dropped += len(audience.dropped)
    pod.close()
    return racer.wrong + audience.wrong(disk.stream)


async def _start_at_steps(
    starts: Sequence[trio.Event], random: Random, live: LivePod
) -> None:
    """Set each event at a step of its own; sooner where there is nothing to do."""
    moments = [(random.randint(1, MOST_STEPS), start) for start in starts]
    alarm = SetAt(moments)
    trio.lowlevel.add_instrument(alarm)
    try:
        for _, start in sorted(moments, key=itemgetter(0)):
            await _either(start.wait, live.settled)
            start.set()
    finally:
        trio.lowlevel.remove_instrument(alarm)


async def _start_within(
    starts: Sequence[trio.Event], random: Random, racer: Racer
) -> None:
    """Set the first event at a step, the second in the middle of what comes of it."""
    await _start_at_steps(starts[:1], random, racer.live)
    await _either(racer.pod.is_lasting.wait, racer.live.settled)
    await trio.sleep(random.uniform(0, MOST_DELAY))
    starts[1].set()


async def _either(*waits: Callable[[], Awaitable[None]]) -> None:
    """Wait for whichever comes first."""
    async with trio.open_nursery() as nursery:

        async def wait_for(one: Callable[[], Awaitable[None]]) -> None:
            await one()
            nursery.cancel_scope.cancel()

        for one in waits:
            nursery.start_soon(wait_for, one)


def doors(pod: RacingPod) -> Doors:
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
                hooks=pod.hooks,
                maintenance=pod.pod.watch.maintenance,
                asked=asked,
            )

        old = pod.pod.setup
        return Switched(setup=setup, watch=watching(), before=watching(old))

    def summarizer() -> BranchSummarizer:
        return BranchSummarizer(pod.pod.setup, listen=pod.heard, reserve_tokens=4_000)

    return Doors(switch=switch, summarizer=summarizer)
