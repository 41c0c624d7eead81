"""What a run may use, and what it has used."""

from decimal import Decimal
from typing import Literal

from msgspec import Struct

from worker.usage import Usage


class Limits(Struct, frozen=True):
    """Bounds of one run; None is no bound.

    *max_requests* counts calls to the model (a retry is not another one),
    *max_total_tokens* prompt and output of all of them, cached tokens included.
    """

    max_requests: int | None = None
    max_total_tokens: int | None = None
    max_budget_usd: float | None = None


LimitName = Literal["max_requests", "max_total_tokens", "max_budget_usd"]


class Reached(Struct, frozen=True):
    """A limit was reached: which, and the sentence for a person."""

    name: LimitName
    message: str


class Spent:
    """Adds up what the requests of one run used.

    *cost* is None as soon as one request's price is unknown: an unknown cost
    is not zero.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.usage = Usage()
        self.cost: Decimal | None = Decimal(0)

    def record_request(self) -> None:
        """Count a call to the model, when it is sent."""
        self.requests += 1

    def charge(self, usage: Usage, cost: Decimal | None) -> None:
        """Add what an answer, whole or broken off, used and cost."""
        self.usage += usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def reached(self, limits: Limits) -> Reached | None:
        """Return the first limit that forbids another request, if one does."""
        if limits.max_requests is not None and self.requests >= limits.max_requests:
            return Reached(
                "max_requests",
                f"stopped after {self.requests} requests"
                f" (limits.max_requests = {limits.max_requests})",
            )
        if (
            limits.max_total_tokens is not None
            and self.usage.total >= limits.max_total_tokens
        ):
            return Reached(
                "max_total_tokens",
                f"stopped after {self.usage.total} tokens"
                f" (limits.max_total_tokens = {limits.max_total_tokens})",
            )
        if limits.max_budget_usd is not None and self.cost is None:
            return Reached(
                "max_budget_usd",
                "stopped because what a request cost is not known, so that"
                f" limits.max_budget_usd = {limits.max_budget_usd} cannot be kept",
            )
        if (
            limits.max_budget_usd is not None
            and self.cost is not None
            and self.cost >= Decimal(str(limits.max_budget_usd))
        ):
            return Reached(
                "max_budget_usd",
                f"stopped after {self.cost:.4f} USD"
                f" (limits.max_budget_usd = {limits.max_budget_usd})",
            )
        return None
