"""How a Pod stands: what a connection begins with, made from its events alone."""

from collections import deque
from itertools import islice

from msgspec import Struct

from pod.entries import (
    AnyEntry,
    Compaction,
    CompactionFailed,
    CompactionStart,
    DeliveredEntry,
    HandedBack,
    InputEntry,
    ItemEntry,
    ModelChange,
    Permission,
    Reason,
    RunEnd,
    RunStart,
    ToolStart,
    UsageEntry,
)
from pod.events import (
    CompactProgress,
    Context,
    Greeting,
    Init,
    PermissionRequest,
    PodLive,
    Standing,
    Status,
)
from worker.client import TextDelta
from worker.events import Live, RequestStart, Retry
from worker.items import ToolResult

MOST_TEXT = 64 * 1024
"""Characters of an answer under way that a snapshot shows: its newest."""
MOST_INPUT = 4 * 1024
"""Characters of one input that waits that a snapshot shows: its first. All of it is
in the event ``input``."""
MOST_INPUTS = 256
"""Inputs that wait that a snapshot shows: the oldest."""


class RunningTool(Struct, frozen=True):
    """A call that has begun and has no result yet."""

    call_id: str
    name: str


class RunningRequest(Struct, frozen=True):
    """A request that is out; *text* is what came of the answer so far, its end."""

    request: int
    model: str
    attempt: int = 1
    text: str = ""


class RunningCompaction(Struct, frozen=True):
    """A compaction that has begun; *progress* is the last that was heard of it."""

    compaction_id: str
    reason: Reason
    mode: str
    tokens_before: int
    progress: CompactProgress | None = None


class WaitingInput(Struct, frozen=True):
    """Input that was accepted and is not in the history yet; *text* is its beginning."""

    input: str
    text: str


class InFlight(Struct, frozen=True):
    """What is under way.

    *inputs* are the oldest that wait, *more_inputs* is how many wait besides.
    """

    request: RunningRequest | None = None
    tools: tuple[RunningTool, ...] = ()
    compaction: RunningCompaction | None = None
    questions: tuple[PermissionRequest, ...] = ()
    inputs: tuple[WaitingInput, ...] = ()
    more_inputs: int = 0


class PodState(Struct, frozen=True):
    """How the Pod of a session stands.

    *seq* numbers the last durable event, *leaf* is where the session stands,
    *run* the run under way and *cost_usd* what it has cost so far (null where a
    price is unknown), *context* how full the context was when that was last told.
    """

    state: Standing
    session: str
    seq: int
    leaf: str | None
    run: str | None
    model: str
    context: Context | None
    cost_usd: float | None
    in_flight: InFlight


class Snapshot(Greeting, frozen=True, tag="snapshot"):
    """The first line of a connection, and the only one of its kind.

    *about* says what runs, where, with what.
    """

    protocol: str
    pid: int
    about: Init
    state: PodState


class Following:
    """Follows a Pod's events, so that at any moment it can be told how it stands."""

    def __init__(
        self,
        *,
        session: str,
        seq: int,
        model: str,
        leaf: str | None,
        inputs: tuple[InputEntry, ...],
    ) -> None:
        self.session = session
        self.seq = seq
        self.run: str | None = None
        self._leaf = leaf
        self._state: Standing = "idle"
        self._model = model
        self._context: Context | None = None
        self._cost: float | None = 0.0
        self._request: RunningRequest | None = None
        self._text: deque[str] = deque()
        self._text_size = 0
        self._tools: dict[str, RunningTool] = {}
        self._compaction: RunningCompaction | None = None
        self._questions: dict[str, PermissionRequest] = {}
        self._inputs = {entry.input: entry.text[:MOST_INPUT] for entry in inputs}

    def entry(self, entry: AnyEntry, leaf: str | None) -> None:
        """Take in a durable event; *leaf* is where the session stands behind it."""
        self.seq, self._leaf = entry.seq, leaf
        match entry:
            case RunStart():
                self.run, self._model, self._cost = entry.run, entry.model, 0.0
            case RunEnd():
                self.run = None
                self._answered()
                self._tools.clear()
                self._questions.clear()
            case InputEntry():
                self._inputs[entry.input] = entry.text[:MOST_INPUT]
            case DeliveredEntry() | HandedBack():
                for input in entry.inputs:
                    self._inputs.pop(input, None)
            case UsageEntry():
                self._answered()
                self._pay(entry.cost_usd)
            case ToolStart():
                self._tools[entry.call_id] = RunningTool(entry.call_id, entry.name)
            case ItemEntry(item=ToolResult(call_id=call_id)):
                self._tools.pop(call_id, None)
            case Permission():
                self._questions.pop(entry.call_id, None)
            case ModelChange():
                self._model = entry.model
            case CompactionStart():
                self._compaction = RunningCompaction(
                    compaction_id=entry.compaction_id,
                    reason=entry.reason,
                    mode=entry.mode,
                    tokens_before=entry.tokens_before,
                )
            case Compaction() | CompactionFailed():
                self._compaction = None
                self._pay(entry.cost_usd)
            case _:
                pass

    def live(self, event: Live | PodLive) -> None:
        """Take in a live event."""
        match event:
            case RequestStart():
                self._answered()
                self._request = RunningRequest(event.request, event.model)
            case Retry() if self._request is not None:
                request = self._request
                self._answered()
                self._request = RunningRequest(
                    request.request, request.model, event.attempt + 1
                )
            case TextDelta() if event.text:
                self._hear(event.text)
            case CompactProgress() if self._compaction is not None:
                now = self._compaction
                self._compaction = RunningCompaction(
                    now.compaction_id, now.reason, now.mode, now.tokens_before, event
                )
            case Context():
                self._context = event
            case PermissionRequest():
                self._questions[event.call_id] = event
            case Status():
                self._state = event.state
            case _:
                pass

    def now(self) -> PodState:
        """Return how things stand."""
        request = self._request
        if request is not None and self._text:
            text = "".join(self._text)[-MOST_TEXT:]
            request = RunningRequest(
                request.request, request.model, request.attempt, text
            )
        return PodState(
            state=self._state,
            session=self.session,
            seq=self.seq,
            leaf=self._leaf,
            run=self.run,
            model=self._model,
            context=self._context,
            cost_usd=self._cost,
            in_flight=InFlight(
                request=request,
                tools=tuple(self._tools.values()),
                compaction=self._compaction,
                questions=tuple(self._questions.values()),
                inputs=tuple(
                    WaitingInput(input, text)
                    for input, text in islice(self._inputs.items(), MOST_INPUTS)
                ),
                more_inputs=max(len(self._inputs) - MOST_INPUTS, 0),
            ),
        )

    def _answered(self) -> None:
        self._request = None
        self._text.clear()
        self._text_size = 0

    def _hear(self, text: str) -> None:
        self._text.append(text)
        self._text_size += len(text)
        while self._text_size - len(self._text[0]) >= MOST_TEXT:
            self._text_size -= len(self._text.popleft())

    def _pay(self, cost: float | None) -> None:
        known = self._cost is not None and cost is not None
        self._cost = self._cost + cost if known else None  # type: ignore[operator]
