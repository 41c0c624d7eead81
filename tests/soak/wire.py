"""Answers that come over a bad line: cut, garbled, doubled, late, at any byte."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Literal, get_args

import trio

from worker.api import Request
from worker.client import Client, Delta, Failure, FailureKind, ProviderError, Response
from worker.items import Opaque
from worker.loopback.answers import stream_of
from worker.stream import Fold

Line = Literal["cut", "flipped", "dropped", "doubled", "garbage", "late", "refused"]
LINES: tuple[Line, ...] = get_args(Line)
REFUSALS: tuple[FailureKind, ...] = ("overloaded", "rate_limit", "connection")
MOST_STEPS = 40
"""Steps of trio's by which an answer may be late."""


class BadLine:
    """A client whose answers go over the wire as bytes, which are spoiled.

    Each answer is spoiled in one place with the chance *rate*, in a way that
    *random* picks, and is read by the parser that reads a provider's.
    """

    def __init__(self, client: Client, random: Random, rate: float) -> None:
        self._client = client
        self._random = random
        self._rate = rate
        self.spoiled: Counter[str] = Counter()

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        response = await self._client.ask(request, _nobody)
        data = b"".join(stream_of(response))
        if self._random.random() < self._rate:
            line = self._random.choice(LINES)
            self.spoiled[line] += 1
            data = await self._spoil(line, data)
        fold = Fold(request_id="req")
        while data:
            size = self._random.randint(1, 400)
            for delta in fold.feed(data[:size]):
                on_delta(delta)
            data = data[size:]
            await trio.lowlevel.checkpoint()
        received = fold.end()
        if any(isinstance(item, Opaque) or item.extra for item in received.items):
            # A byte that makes another kind of block, or another field, cannot be
            # told from one that is new: it is kept, as it came. TLS lets no such
            # byte through.
            raise ProviderError(Failure("garbled", "the line made up a new block"))
        return received

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)

    async def _spoil(self, line: Line, data: bytes) -> bytes:
        at = self._random.randrange(len(data))
        end = at + self._random.randint(1, 200)
        match line:
            case "cut":
                return data[:at]
            case "flipped":
                bit = 1 << self._random.randrange(8)
                return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            case "dropped":
                return data[:at] + data[end:]
            case "doubled":
                return data[:end] + data[at:]
            case "garbage":
                return data[:at] + self._random.randbytes(end - at) + data[at:]
            case "late":
                for _ in range(self._random.randint(1, MOST_STEPS)):
                    await trio.lowlevel.checkpoint()
                return data
            case "refused":
                kind = self._random.choice(REFUSALS)
                raise ProviderError(Failure(kind, "the line is down"))


def _nobody(delta: Delta) -> None:
    """Hear nothing: what is told are the deltas of the bytes."""
