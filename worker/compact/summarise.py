"""Has a summary written in single calls: of a history, of the start of a turn.

A record that does not fit into one prompt is folded: the first part is
summarised, and each further part together with the summary so far.
"""

from collections.abc import Awaitable, Callable, Sequence

import trio
from msgspec import Struct

from prompts import load
from worker.compact.summary_prompts import (
    NO_HISTORY,
    Brief,
    Kind,
    Sizes,
    joined,
    part_prompt,
    problem_of,
    short_prompt,
    shorten_prompt,
    title,
)
from worker.compact.task import CompactError
from worker.compact.windows import LEAST_ROOM, pieces_of, window
from worker.compact.writer import Writer
from worker.items import Item

MOST_ANSWER = 16_384
"""Most output tokens of one call, whatever is held in reserve: a summary must not
grow with the window."""
MOST_SHORT = 512
"""Output tokens of a title."""
HISTORY_SHARE = 0.8
PREFIX_SHARE = 0.5
SHORT_SHARE = 0.2
"""What a call may answer, as parts of the reserve (pi's figures)."""
LEAST_RESERVE = 1_024
RESERVE_SHARE = 8
"""In a window of w tokens no more than w / 8 are held in reserve, but LEAST_RESERVE."""


class Head(Struct, frozen=True):
    """What is to be summarised.

    *history* are whole turns, *turn_prefix* the first part of the turn that the
    kept items end ("()" where none is split). *previous* is the summary of what
    was before both.
    """

    history: Sequence[Item]
    turn_prefix: Sequence[Item] = ()
    previous: str = ""


class Bounds(Struct, frozen=True):
    """Tokens: of the summary, and held in reserve beside each prompt and answer."""

    sizes: Sizes
    reserve: int


class Summariser:
    """Has *writer* write summaries. *count* gives the tokens of a text."""

    def __init__(
        self,
        writer: Writer,
        *,
        brief: Brief,
        bounds: Bounds,
        count: Callable[[str], int],
        is_shaped: bool = True,
    ) -> None:
        self._writer = writer
        self._brief = brief
        self._bounds = bounds
        self._count = count
        self._is_shaped = is_shaped
        self._system = load("summary_system")

    async def summary(self, head: Head) -> str:
        """Return the summary of *head*. Raises CompactError.

        A turn that is split has its history and its first part summarised at the
        same time. Where there is nothing before the turn but an earlier summary,
        that one is carried on word for word.
        """
        if not head.turn_prefix:
            text = await self._part("history", head.history, head.previous)
        elif head.history:
            history, prefix = await _both(
                lambda: self._part("history", head.history, head.previous),
                lambda: self._part("turn_prefix", head.turn_prefix, ""),
            )
            text = joined(history, prefix)
        else:
            prefix = await self._part("turn_prefix", head.turn_prefix, "")
            text = joined(head.previous or NO_HISTORY, prefix)
        return await self._within_cap(text)

    async def short(self, summary: str) -> str:
        """Return a title of one line for *summary*. Raises CompactError."""
        answer = await self._writer.write(
            self._system,
            short_prompt(summary, self._brief),
            answer_tokens=self._answer(SHORT_SHARE, MOST_SHORT),
            problem_of=lambda text: None if title(text) else "it is no title",
        )
        return title(answer)

    async def _part(self, kind: Kind, items: Sequence[Item], previous: str) -> str:
        """Return the summary of one part, in as many calls as it takes."""
        share = HISTORY_SHARE if kind == "history" else PREFIX_SHARE
        answer = self._answer(share, MOST_ANSWER)
        rest = pieces_of(items)
        summary = previous
        most: int | None = None
        while rest:
            room = self._room(kind, summary, answer, most)
            text, left = window(rest, room, self._count)
            try:
                summary = await self._writer.write(
                    self._system,
                    self._prompt(kind, text, summary),
                    answer_tokens=answer,
                    problem_of=lambda text: self._problem(kind, text),
                )
            except CompactError as error:
                most = self._count(text) // 2
                if error.code != "overflow" or most < LEAST_ROOM:
                    raise
            else:
                rest = left
        if not summary:
            raise CompactError("no_summary", "there is nothing in it to summarise")
        return summary

    def _prompt(self, kind: Kind, text: str, previous: str) -> str:
        return part_prompt(kind, text, previous, self._brief, self._bounds.sizes)

    def _problem(self, kind: Kind, text: str) -> str | None:
        if not self._is_shaped:
            return None if text.strip() else "it is empty"
        return problem_of(kind, text, self._brief)

    def _room(
        self, kind: Kind, previous: str, answer: int, most: int | None
    ) -> int | None:
        """Return the tokens the record may have in the next call, None for no limit."""
        whole = self._writer.room(answer)
        if whole is None:
            return most
        reserve = min(self._bounds.reserve, max(whole // RESERVE_SHARE, LEAST_RESERVE))
        fixed = self._count(self._system) + self._count(
            self._prompt(kind, "", previous)
        )
        room = max(whole - reserve - fixed, LEAST_ROOM)
        return room if most is None else min(room, most)

    def _answer(self, share: float, most: int) -> int:
        """Return the output tokens of a call, that thinking comes on top of."""
        wanted = min(int(self._bounds.reserve * share), most)
        room = self._writer.room(0)
        return max(wanted if room is None else min(wanted, room // 4), 1)

    async def _within_cap(self, text: str) -> str:
        """Return *text*, sent back once to be shortened where it is too long."""
        sizes = self._bounds.sizes
        tokens = self._count(text)
        if tokens <= sizes.cap:
            return text
        return await self._writer.write(
            self._system,
            shorten_prompt(text, tokens, self._brief, sizes),
            answer_tokens=self._answer(HISTORY_SHARE, MOST_ANSWER),
            problem_of=lambda new: self._shortened_problem(text, new),
        )

    def _shortened_problem(self, before: str, after: str) -> str | None:
        """Say whether *after* has lost headings that *before* had."""
        lost = [line for line in _headings(before) if line not in _headings(after)]
        if self._is_shaped and lost:
            return f"these headings are missing: {', '.join(lost)}"
        return None


def _headings(text: str) -> list[str]:
    return [
        line.rstrip()
        for line in text.splitlines()
        if line.startswith(("## ", "**Turn Context"))
    ]


async def _both(
    one: Callable[[], Awaitable[str]], other: Callable[[], Awaitable[str]]
) -> tuple[str, str]:
    """Run both at the same time. The first that fails ends the other; it is raised."""
    texts = ["", ""]
    failed: list[CompactError] = []

    async def run(at: int, work: Callable[[], Awaitable[str]]) -> None:
        try:
            texts[at] = await work()
        except CompactError as error:
            failed.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, 0, one)
        nursery.start_soon(run, 1, other)
    if failed:
        raise failed[0]
    return texts[0], texts[1]
