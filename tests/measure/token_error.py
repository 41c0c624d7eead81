"""Measures how wrong the estimates are, on logs that tell each request's usage.

    python -m tests.measure.token_error [FOLDER]

replays every log in FOLDER (by default the corpus beside the project) through
the runtime's own Occupancy. Of each request, what was new in it is estimated
before its usage is looked at, and then compared with how much the prompt grew.
Prints Markdown; docs/tokens.md quotes it.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import trio
from msgspec import Struct

from tests.corpus import CORPUS
from tests.measure.logged import Logged
from tests.measure.readers import read_log
from worker.calibration import Calibration
from worker.counters import O200k
from worker.items import AssistantText, Item, Reasoning, ToolCall
from worker.known_models import normal_id
from worker.model import Model
from worker.occupancy import Occupancy
from worker.tokens import Counter as TokenCounter, count_item, factor_for
from worker.usage import Usage

PLACEHOLDER = 0.9
"""Claude Code often logs the output figure a stream began with. One below this
share of the answer's own text, in o200k tokens, is taken for that."""

LARGE = 200
"""Tokens: below, an error of a few tokens is a large relative one."""

FEWEST = 10
"""Requests of a model that make a row of its own."""


class Compared(Struct, frozen=True):
    """What was new in one request: tokens measured, and estimated in three ways."""

    model: str
    measured: int
    prompt: int
    counted: int
    guessed: int
    calibrated: int


class Answered(Struct, frozen=True):
    """One answer: tokens measured, and estimated with the model's first factor."""

    model: str
    has_reasoning: bool
    measured: int
    guessed: int


class Outcome(Struct, frozen=True):
    compared: list[Compared]
    left_out: Counter[str]
    answers: list[Answered]


class Replay:
    """Follows logs with what the runtime uses; a request in two logs counts once."""

    def __init__(self, counter: TokenCounter) -> None:
        self.compared: list[Compared] = []
        self.left_out: Counter[str] = Counter()
        self.answers: list[Answered] = []
        self._counter = counter
        self._seen: set[str] = set()

    async def log(self, requests: Sequence[Logged]) -> None:
        calibrations: dict[str, Calibration] = {}
        occupancy: Occupancy | None = None
        before: Logged | None = None
        items: list[Item] = []
        for request in requests:
            if occupancy is None or before is None or request.model != before.model:
                occupancy = _occupancy(request.model, calibrations, self._counter)
            if request.broken is not None:
                occupancy.reset()
                items = []
            known = occupancy.last
            items = [*items, *request.new]
            estimate = await occupancy.estimate(items)
            why = self._why_not(request, before, known)
            if why is not None or known is None:
                self.left_out[why or "not measured before"] += 1
            else:
                self.compared.append(self._compare(request, known, estimate - known))
            is_new = request.id not in self._seen
            self._seen.add(request.id)
            items = [*items, *request.answer]
            if self._is_placeholder(request):
                occupancy.reset()
            else:
                if is_new and request.answer:
                    self.answers.append(self._answered(request))
                usage = Usage(input=request.prompt, output=request.output)
                occupancy.measured(request.context, items, usage=usage)
            before = request

    def _why_not(
        self, request: Logged, before: Logged | None, known: int | None
    ) -> str | None:
        if request.id in self._seen:
            return "the same request in another log"
        if request.broken is not None:
            return REASONS[request.broken]
        if before is not None and before.model != request.model:
            return "first request of another model"
        if known is None:
            return "the log has a placeholder for the answer before"
        if request.prompt <= known:
            return "the prompt shrank: something was dropped, the log does not say what"
        return None

    def _compare(self, request: Logged, known: int, calibrated: int) -> Compared:
        counted = sum(count_item(item, self._counter) for item in request.new)
        return Compared(
            model=normal_id(request.model),
            measured=request.prompt - known,
            prompt=request.prompt,
            counted=counted,
            guessed=round(counted * factor_for(request.model)),
            calibrated=calibrated,
        )

    def _answered(self, request: Logged) -> Answered:
        counted = sum(count_item(item, self._counter) for item in request.answer)
        return Answered(
            model=normal_id(request.model),
            has_reasoning=any(isinstance(i, Reasoning) for i in request.answer),
            measured=request.output,
            guessed=round(counted * factor_for(request.model)),
        )

    def _is_placeholder(self, request: Logged) -> bool:
        texts = [
            item.text if isinstance(item, AssistantText) else item.arguments
            for item in request.answer
            if isinstance(item, AssistantText | ToolCall)
        ]
        return request.output < PLACEHOLDER * sum(map(self._counter.count, texts))


REASONS = {
    "first": "first request of a log",
    "compaction": "first request after a compaction",
    "branch": "first request of a branch",
    "aborted": "first request after an answer that was broken off",
    "damaged line": "first request after a damaged line",
}


def _occupancy(
    model: str, calibrations: dict[str, Calibration], counter: TokenCounter
) -> Occupancy:
    return Occupancy(
        model=Model(provider="anthropic", id=model, window=None, max_tokens=1),
        system="",
        specs=(),
        counter=counter,
        calibration=calibrations.setdefault(model, Calibration(model)),
    )


async def measure(paths: Iterable[Path]) -> Outcome:
    """Replay the logs at *paths*."""
    replay = Replay(O200k())
    for path in paths:
        await replay.log(read_log(path))
    return Outcome(replay.compared, replay.left_out, replay.answers)


def report(outcome: Outcome) -> Iterator[str]:
    """Tell the errors, line by line, in Markdown."""
    large = [one for one in outcome.compared if one.measured >= LARGE]
    yield from _table(f"new parts of {LARGE} tokens and more", large)
    yield ""
    yield from _table("all new parts", outcome.compared)
    yield ""
    yield from _answers(outcome.answers)
    yield ""
    yield "| left out | requests |"
    yield "|---|---|"
    for why, requests in sorted(outcome.left_out.items(), key=lambda pair: -pair[1]):
        yield f"| {why} | {requests} |"


def _table(name: str, compared: Sequence[Compared]) -> Iterator[str]:
    yield (
        f"| {name} | requests | measured tokens | plain o200k | first guess"
        " | calibrated | calibrated, of the whole prompt |"
    )
    yield "|---|---|---|---|---|---|---|"
    models = Counter(one.model for one in compared)
    for model, requests in models.most_common():
        if requests >= FEWEST:
            yield _row(model, [one for one in compared if one.model == model])
    yield _row("all", compared)


def _row(name: str, compared: Sequence[Compared]) -> str:
    cells = [
        name,
        str(len(compared)),
        f"{sum(one.measured for one in compared):,}",
        _errors([abs(c.counted - c.measured) / c.measured for c in compared]),
        _errors([abs(c.guessed - c.measured) / c.measured for c in compared]),
        _errors([abs(c.calibrated - c.measured) / c.measured for c in compared]),
        _errors([abs(c.calibrated - c.measured) / c.prompt for c in compared]),
    ]
    return f"| {' | '.join(cells)} |"


def _answers(answers: Sequence[Answered]) -> Iterator[str]:
    yield "| answers | requests | measured tokens | first guess | guessed / measured |"
    yield "|---|---|---|---|---|"
    kinds = Counter((one.model, one.has_reasoning) for one in answers)
    for (model, has_reasoning), requests in kinds.most_common():
        if requests < FEWEST:
            continue
        kind = (model, has_reasoning)
        these = [one for one in answers if (one.model, one.has_reasoning) == kind]
        measured = sum(one.measured for one in these)
        guessed = sum(one.guessed for one in these)
        name = f"{model}, {'with' if has_reasoning else 'no'} reasoning"
        ratio = guessed / measured
        yield f"| {name} | {requests} | {measured:,} | {guessed:,} | {ratio:.2f} |"


def _errors(errors: Sequence[float]) -> str:
    """Tell the median and the 95th percentile."""
    if not errors:
        return "-"
    ordered = sorted(errors)
    middle, far = (ordered[round(share * (len(ordered) - 1))] for share in (0.5, 0.95))
    return f"{middle:.1%} / {far:.1%}"


def main(arguments: Sequence[str]) -> None:
    folder = Path(arguments[0]) if arguments else CORPUS / "sessions"
    paths = sorted(p for p in folder.rglob("*.json*") if p.is_file())
    for line in report(trio.run(measure, paths)):
        print(line)  # noqa: T201  a command


if __name__ == "__main__":
    main(sys.argv[1:])
