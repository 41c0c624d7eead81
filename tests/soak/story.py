"""What happens in one session: runs, steering, compactions, navigation; by a seed."""

from collections import Counter
from pathlib import Path
from random import Random

import trio
from msgspec.structs import replace

from pod.closing import is_open
from pod.disk import Disk
from pod.entries import Header, ItemEntry, Known, Label
from pod.errors import LogFailed
from pod.pod import NothingToDo
from pod.session import Session
from tests.instruments import CancelAt
from tests.pod.compaction.pods import TABLE, FillingPod
from tests.soak.traced import TracedDisk
from tests.soak.wire import BadLine
from tests.worker.compact import policies
from tools.base import Call, ToolOutput
from worker.client import Client
from worker.limits import Limits
from worker.retry import RetryPolicy

TABLE_OF_STORIES = replace(
    TABLE,
    compact_threshold=5_000,
    retained_tokens=500,
    auto_read_budget=300,
    directive_budget=300,
    summary_cap=600,
    summary_target=400,
    overview_tokens=800,
)
"""So small that three results of 800 tokens fill it."""

WORKERS = ("careful", "careful", "careful", "empty", "lazy", "truncating")
MOST_REQUESTS = 60
MOST_STEPS = 600
"""Steps of trio's within which a story's run is cancelled, if it is."""


class StoryPod(FillingPod):
    """A Pod whose disk is traced; now and then a tool call is followed by input.

    It makes *calls* calls, from the first to the second number, with results of *size*
    tokens.
    """

    def __init__(
        self,
        path: Path,
        disk: Disk,
        random: Random,
        bad_line: float,
        *,
        calls: tuple[int, int] = (1, 9),
        size: tuple[int, int] = (10, 1_200),
    ) -> None:
        self._random = random
        self._disk = disk
        self.lines: list[BadLine] = []
        super().__init__(
            path,
            calls=random.randint(*calls),
            size=lambda number: random.randint(*size),
            worker=policies.ALL[random.choice(WORKERS)](),
            table=TABLE_OF_STORIES,
            limits=Limits(max_requests=MOST_REQUESTS),
            retry=RetryPolicy(base=0.000_1, cap=0.000_1),
            wrap=lambda client: self._spoiled(client, bad_line),
            open_session=self._open,
        )
        self.session.on_entry = self._heard

    def _open(self, path: Path, header: Header) -> Session:
        if path.exists():
            return Session.open(path, disk=self._disk, random=self._random)
        return Session.create(path, header, disk=self._disk, random=self._random)

    def _spoiled(self, client: Client, rate: float) -> Client:
        self.lines.append(BadLine(client, self._random, rate))
        return self.lines[-1]

    def _heard(self, entry: Known) -> None:
        self.told.append(entry)
        if isinstance(self._disk, TracedDisk):
            self._disk.told(entry)

    async def _fetch(self, call: Call) -> ToolOutput:
        if isinstance(self._disk, TracedDisk):
            self._disk.effect()
        output = await super()._fetch(call)
        if self._random.random() < 0.1:
            self.pod.steer(f"And then {self._random.getrandbits(32):08x}.")
        return output


async def story(
    path: Path, disk: Disk, random: Random, bad_line: float = 0.0
) -> Counter[str]:
    """Let things happen to one session, in one process after the other.

    *bad_line* is the part of the answers that are spoiled on their way; returns
    how many were, by kind. Raises LogFailed where the disk does not take it.
    """
    spoiled: Counter[str] = Counter()
    for process in range(random.randint(1, 3)):
        pod = StoryPod(path, disk, random, bad_line)
        try:
            if process == 0:
                await _run(pod, random)
            for _ in range(random.randint(1, 4)):
                await _chapter(pod, random)
        finally:
            pod.close()
        spoiled += sum((line.spoiled for line in pod.lines), Counter())
    return spoiled


async def _chapter(pod: StoryPod, random: Random) -> None:
    match random.choice(("run", "run", "cut off", "compact", "navigate", "label")):
        case "run":
            await _run(pod, random)
        case "cut off":
            scope = trio.CancelScope()
            instrument = CancelAt(scope, random.randint(1, MOST_STEPS))
            trio.lowlevel.add_instrument(instrument)
            try:
                with scope:
                    await _run(pod, random)
            finally:
                trio.lowlevel.remove_instrument(instrument)
        case "compact":
            await pod.pod.compact(mode=random.choice(("worker", "mechanical", None)))
        case "navigate":
            if items := _items(pod):
                pod.session.navigate(random.choice([*items, None]))
        case _:
            if items := _items(pod):
                name = f"mark {random.getrandbits(8)}"
                pod.session.append(Label(target=random.choice(items), label=name))


async def _run(pod: StoryPod, random: Random) -> None:
    is_going_on = is_open(pod.session) and random.random() < 0.5
    prompt = None if is_going_on else f"Fetch all, {random.getrandbits(32):08x}."
    await pod.pod.run(prompt)


def _items(pod: StoryPod) -> list[str]:
    return [
        entry.id
        for entry in pod.session.recent_entries()
        if isinstance(entry, ItemEntry)
    ]


async def goes_on(path: Path) -> list[str]:
    """Give the session one more prompt; return what is wrong with its run."""
    pod = FillingPod(path, calls=3, size=400, table=TABLE_OF_STORIES)
    try:
        end = await pod.pod.run("One more.")
    except (LogFailed, NothingToDo) as error:
        return [f"does not go on: {error}"]
    finally:
        pod.close()
    if end.outcome != "finished":
        return [f"does not go on: {end.outcome}, {end.reason}, {end.message}"]
    return []
