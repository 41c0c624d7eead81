"""What the compact worker is given, and what it gives back."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from worker.items import Item
from worker.usage import Usage


class Budgets(Struct, frozen=True):
    """Bounds of one compact worker; tokens unless it says otherwise.

    *max_input_tokens* bounds what it is sent in all, each token counted once,
    when it is first sent. *seconds* bounds the whole of it.
    """

    auto_read: int = 8_000
    overview: int = 8_000
    max_input_tokens: int = 50_000
    max_requests: int = 20
    seconds: float = 300.0
    summary_target: int = 2_000
    summary_cap: int = 4_000


class KnownFile(Struct, frozen=True):
    """A file the Pod used lately: its absolute path and size in bytes.

    *size* is None where it is gone. *use* says in a few words how it was used.
    """

    path: str
    size: int | None
    use: str


class Task(Struct, frozen=True):
    """The head of a history, to be summarised, and what goes with it.

    *head* are the items that will be replaced, *previous_summary* what stood for
    the items before them ("" for nothing). *files* are the default references,
    most recently used first. *instructions* are the user's for this compaction.
    """

    head: Sequence[Item]
    previous_summary: str = ""
    directives: tuple[str, ...] = ()
    files: tuple[KnownFile, ...] = ()
    instructions: str = ""
    context: tuple[str, ...] = ()
    """Lines that hooks add."""


class Mark(Struct, frozen=True):
    """Lines to be put in front of the model: 1-based, both included.

    *start* and *end* are None for a whole file; *tokens* is what the rendered
    block cost when it was marked.
    """

    path: str
    start: int | None
    end: int | None
    tokens: int


class Progress(Struct, frozen=True):
    """How far a compact worker is, told after each of its requests and marks."""

    requests: int
    input_tokens: int
    auto_read_tokens: int
    references: int
    has_summary: bool


class Result(Struct, frozen=True):
    """What a compact worker decided, and what it used.

    *dropped_quotes* are quotations under User Directives that no user item of
    the head, no directive and no earlier summary holds; they are out of *summary*.
    """

    summary: str
    marks: tuple[Mark, ...]
    references: tuple[str, ...]
    dropped_quotes: tuple[str, ...]
    requests: int
    input_tokens: int
    usage: Usage
    cost_usd: float | None


Code = Literal[
    "timeout",
    "overflow",
    "no_summary",
    "invalid_summary",
    "too_large",
    "input_limit",
    "api",
]


class CompactError(Exception):
    """The compact worker ended without a summary that can be used.

    *counts* says whether the circuit breaker counts it: what is the provider's
    fault (429, 5xx, a dropped connection) does not.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        counts: bool = True,
        usage: Usage = Usage(),  # noqa: B008  frozen
        cost_usd: float | None = None,
        requests: int = 0,
        input_tokens: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.counts = counts
        self.usage = usage
        self.cost_usd = cost_usd
        self.requests = requests
        self.input_tokens = input_tokens
