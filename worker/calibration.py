"""Learns what a model makes of an o200k token, from measured usage.

The o200k count of a text is off by a factor that depends on the model and on
what is counted (performance.md A5). After each answer the provider has told
how much the part that was new in the request really was; the factor follows.
"""

from collections.abc import Iterable

from msgspec import Struct

from worker.tokens import factor_for
from worker.usage import Usage

LOWEST, HIGHEST = 0.8, 2.5
"""Bounds of the factor. Measured on whole texts: 1.0 to 1.6 for prose, code and
JSON, 2.3 for names in capitals, 3 for one letter repeated; a vocabulary that
suits the text better than o200k stays a little below 1. Anything beyond is
text that only one side saw."""

SMALLEST = 200
"""Tokens below which a measurement says more of envelopes than of text."""

HEAVIEST = 8_000
"""Tokens that one measurement counts for at most: one giant file of one kind
does not speak for what comes after it."""

PRIOR = 2_000
"""Tokens that the first guess counts for."""

KEPT = 0.9
"""Share of the past that each measurement leaves: about ten of them count. This
and the three above change little between half and double (docs/tokens.md)."""


class Calibration:
    """The factor from o200k tokens to those of one model.

    A moving average: the sum of what was measured by the sum of what was
    counted, the past fading.
    """

    def __init__(self, model: str) -> None:
        self._counted = float(PRIOR)
        self._measured = PRIOR * factor_for(model)

    @property
    def factor(self) -> float:
        return self._measured / self._counted

    def learn(self, estimate: int, measured: int) -> None:
        """Take in that *estimate* o200k tokens were *measured* tokens.

        Both are of what was new in one request. The caller leaves out what is
        no such pair: anything across a compaction, a prune or a model switch.
        Where the prompt shrank, something has left it: no such pair either.
        """
        if estimate < SMALLEST or measured <= 0:
            return
        ratio = min(max(measured / estimate, LOWEST), HIGHEST)
        weight = min(estimate, HEAVIEST)
        self._counted = KEPT * self._counted + weight
        self._measured = KEPT * self._measured + weight * ratio


class Measurement(Struct, frozen=True):
    """What the log keeps of an answered request.

    *estimate* is what its prompt was estimated at, *context_tokens* what
    prompt and answer had together.
    """

    estimate: int | None
    context_tokens: int | None
    usage: Usage | None


def prompt_tokens(context_tokens: int, usage: Usage | None) -> int | None:
    """Return the tokens of the prompt alone, None where they are not known.

    What is billed over several iterations is no prompt that was ever sent.
    """
    if usage is None or usage.total != context_tokens:
        return None
    return usage.prompt


def relearn(model: str, measurements: Iterable[Measurement | None]) -> Calibration:
    """Return the calibration that answered requests of *model* have led to.

    None stands for whatever voids a measurement: a compaction, a prune, a
    clip, a switch of models. An estimate contains the factor of its time, so
    this goes through the same factors again, give or take a rounding.
    """
    calibration = Calibration(model)
    before: int | None = None
    for one in measurements:
        if one is None:
            before = None
        elif one.context_tokens is not None:
            prompt = prompt_tokens(one.context_tokens, one.usage)
            if before is not None and one.estimate is not None and prompt is not None:
                estimate = (one.estimate - before) / calibration.factor
                calibration.learn(round(estimate), prompt - before)
            before = one.context_tokens
    return calibration
