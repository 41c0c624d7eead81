"""Where a history is cut: what is summarised, and what is kept as it is.

Cuts lie between items and are legal (worker/history.py). One more kind is taken
where no other will do, since a long run may be a single tool loop: inside a loop
with signed reasoning, whose kept part then loses that reasoning as a whole. The
compaction names it (dropped_reasoning), so the log alone says what is shown.
What the model reasons after the compaction stays: it saw the loop like that.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pod.compaction.clip import clips_to_fit
from pod.entries import (
    ASIDE,
    BranchSummary,
    Clip,
    Compaction,
    CustomMessage,
    InputEntry,
    ItemEntry,
)
from pod.view import Shown, Window, clipped
from worker.history import is_paused, legal_cuts, stretches, unanswered
from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

Count = Callable[[Item], int]
"""Gives the tokens of an item as it is sent."""


class Cut(Struct, frozen=True):
    """Where a window is cut: ``shown[:index]`` is summarised, ``shown[index:]`` kept.

    *first_kept* and *dropped_reasoning* go into the compaction, *clips* into the
    log before it. With *index* 0 nothing is summarised: the clips alone make
    room. The tokens are those of the items as they are shown afterwards.
    """

    index: int
    first_kept: str | None
    dropped_reasoning: tuple[str, ...]
    clips: tuple[Clip, ...]
    summarised_tokens: int
    kept_tokens: int


Rule = Literal["back", "at_or_after"]
"""Which legal cut is taken where the newest items have the tokens to be kept: the last
one before that point, so that about as much or more is kept; or the first one from
there on, so that it is about as much or less (the second seed's rule)."""


class NoCut(Struct, frozen=True):
    """There is nothing that could be summarised: *reason*, and in words."""

    reason: Literal["empty", "unanswered", "all_kept"]
    message: str


def find_cut(
    window: Window,
    *,
    retained_tokens: int,
    room: int | None,
    count: Count,
    rule: Rule = "back",
) -> Cut | NoCut:
    """Return the cut that keeps about the newest *retained_tokens*.

    *room* is the most tokens the kept items may have (None: no limit). By the rule
    "back" more than *retained_tokens* are kept where the cut has to move back to
    a legal one; by "at_or_after" less, but where there is none any more the newest
    unit is. Less is kept where that exceeds *room*; and where *room* is exceeded by
    the newest unit alone, its largest items are clipped. What the model has not answered
    yet (results, and input behind them) is never summarised: it belongs to the
    newest unit. *count* is asked once for each
    item. Nothing is cut while a call is unanswered.
    """
    items = [shown.item for shown in window.shown]
    if not items:
        return NoCut("empty", "there is nothing to summarise: the history is empty")
    if calls := unanswered(items):
        message = f"nothing can be cut while calls run: {len(calls)} have no result yet"
        return NoCut("unanswered", message)
    places = _Places(window, items, [count(item) for item in items])
    most = places.sizes.total if room is None else max(room, 0)
    candidates = places.candidates if rule == "back" else places.nearest
    for index in candidates(retained_tokens, most):
        if places.kept_tokens(index) <= most:
            return places.cut(index)
    if places.sizes.total <= max(most, retained_tokens):
        return NoCut(
            "all_kept",
            "there is nothing to summarise: the whole history is within what is kept",
        )
    index = places.last_unit
    stays = places.kept(index)
    kept = [shown for at, shown in enumerate(window.shown) if at in stays]
    clips = clips_to_fit(kept, room=most, count=count)
    if index or clips:
        return places.cut(index, clips, saved=_saved(kept, clips, count))
    return NoCut("all_kept", "the newest unit is all there is, and cannot be clipped")


def cut_at(window: Window, first_kept: str, *, count: Count) -> Cut | str:
    """Return the cut that keeps all from the entry *first_kept* on, or why it may not be.

    For whoever names an entry instead of a size: it has to be in the window, and
    the cut before it a legal one.
    """
    items = [shown.item for shown in window.shown]
    if unanswered(items):
        return "nothing can be cut while calls run"
    ids = [entry.id for entry in window.entries]
    if first_kept not in ids:
        return (
            "it is not among the entries that are in the context, which could be kept"
        )
    kept = set(ids[ids.index(first_kept) :])
    index = next(
        (at for at, shown in enumerate(window.shown) if shown.entry in kept), len(items)
    )
    places = _Places(window, items, [count(item) for item in items])
    if not index:
        return "nothing would be summarised"
    if index > places.last_unit:
        return "what the model has not answered yet, or its last answer, has to be kept"
    if not places.is_cut(index):
        return (
            "a tool call would be parted from its result, or a response from its rest"
        )
    return places.cut(index)


def _saved(kept: Sequence[Shown], clips: Sequence[Clip], count: Count) -> int:
    items = {shown.entry: shown.item for shown in kept}
    return sum(
        count(items[clip.entry]) - count(clipped(items[clip.entry], clip.text))
        for clip in clips
    )


class _Sizes:
    """The tokens of the items, summed from the front."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.sums = [0, *accumulate(tokens)]
        self.total = self.sums[-1]

    def index_of(self, newest: int) -> int:
        """Return the first index behind which are at most *newest* tokens."""
        return bisect_left(self.sums, self.total - max(newest, 0))

    def since(self, index: int) -> int:
        return self.total - self.sums[index]


class _Places:
    """Where one window can be cut, and what each cut would keep."""

    def __init__(
        self, window: Window, items: Sequence[Item], tokens: Sequence[int]
    ) -> None:
        self._window = window
        self._items = items
        self._tokens = tokens
        self.sizes = _Sizes(tokens)
        self._reasoning = [0, *accumulate(map(_reasoning_tokens, items, tokens))]
        self._legal = legal_cuts(items)
        self._in_loops = legal_cuts([_unsigned(item) for item in items])
        self._is_legal = frozenset(self._legal)
        newest = _first_unseen(items)
        if newest == len(items):  # all of it is seen
            newest -= 1
        self.last_unit = self._in_loops[bisect_right(self._in_loops, newest) - 1]
        """The index at which the newest unit starts that no cut divides."""

    def candidates(self, retained: int, most: int) -> Iterator[int]:
        """Give the cuts to try: back to a legal one, back into a loop, forward."""
        want = self.sizes.index_of(retained)
        if retained > 0 or _first_unseen(self._items) < len(self._items):
            want = min(want, self.last_unit)  # something is kept, however large it is
        if want:
            for cuts in (self._legal, self._in_loops):
                if index := cuts[bisect_right(cuts, want) - 1]:
                    yield index
        elif self.sizes.total <= most:
            return
        for index in self._in_loops[bisect_right(self._in_loops, want) :]:
            if index <= self.last_unit and self._least(index) <= most:
                yield index

    def nearest(self, retained: int, most: int) -> Iterator[int]:
        """Give the cuts to try: the first from where the newest have *retained* tokens."""
        sums, total = self.sizes.sums, self.sizes.total
        if total < retained and total <= most:
            return
        want = max(bisect_right(sums, total - retained) - 1, 0)
        if want > self.last_unit:
            yield self.last_unit  # a huge last unit must not mean that all is kept
        for index in self._in_loops[bisect_left(self._in_loops, want) :]:
            if 0 < index <= self.last_unit and self._least(index) <= most:
                yield index

    def is_cut(self, index: int) -> bool:
        return index in self._in_loops

    def _least(self, index: int) -> int:
        """Return a bound on kept_tokens that takes no walk: no reasoning at all."""
        return self.sizes.since(index) - (self._reasoning[-1] - self._reasoning[index])

    def kept(self, index: int) -> frozenset[int]:
        """Return the indices of what is shown after a cut at *index*."""
        return frozenset(range(index, len(self._items))) - frozenset(
            self._dropped(index)
        )

    def kept_tokens(self, index: int) -> int:
        dropped = sum(self._tokens[at] for at in self._dropped(index))
        return self.sizes.since(index) - dropped

    def cut(self, index: int, clips: tuple[Clip, ...] = (), saved: int = 0) -> Cut:
        shown = self._window.shown
        return Cut(
            index=index,
            first_kept=_first_kept(self._window, index),
            dropped_reasoning=tuple(shown[at].entry for at in self._dropped(index)),
            clips=clips,
            summarised_tokens=self.sizes.sums[index],
            kept_tokens=self.kept_tokens(index) - saved,
        )

    def _dropped(self, index: int) -> list[int]:
        """Return where the reasoning is that a cut at *index* takes from its loop."""
        if index in self._is_legal:
            return []
        dropped: list[int] = []
        joined = True
        for start, end in stretches(self._items[index:]):
            stretch = self._items[index + start : index + end]
            match stretch[0]:
                case AssistantText() | Reasoning() | ToolCall() | Opaque():
                    if not joined:
                        break
                    dropped += [
                        index + start + at
                        for at, item in enumerate(stretch)
                        if isinstance(item, Reasoning)
                    ]
                    joined = is_paused(stretch)
                case ToolResult():
                    joined = True
                case UserText(text=text, images=images):
                    joined = joined and not (text.strip() or images)
                case SystemText():
                    pass
        return dropped


def _first_unseen(items: Sequence[Item]) -> int:
    """Return where what the model has not answered yet begins."""
    at = len(items)
    while at and not isinstance(items[at - 1], FromModel):
        at -= 1
    return at


def _reasoning_tokens(item: Item, tokens: int) -> int:
    return tokens if isinstance(item, Reasoning) else 0


def _unsigned(item: Item) -> Item:
    if isinstance(item, Reasoning):
        return replace(item, signature="", redacted="")
    return item


def _first_kept(window: Window, index: int) -> str | None:
    """Return the entry that the kept part starts with, None where nothing is kept.

    Entries without an item right before the first kept one stay with it, up to
    a compaction; also where no item is kept, so that what is added to the path
    meanwhile is. It is none that a fork could leave out.
    """
    entries = window.entries
    shown = window.shown
    at = len(entries)
    if index < len(shown):
        wanted = shown[index].entry
        at = next(at for at, entry in enumerate(entries) if entry.id == wanted)
    first = entries[at].id if at < len(entries) else None
    while at and not isinstance(
        entries[at - 1], ItemEntry | CustomMessage | BranchSummary | Compaction
    ):
        at -= 1
        if not isinstance(entries[at], (InputEntry, *ASIDE)):
            first = entries[at].id
    return first
