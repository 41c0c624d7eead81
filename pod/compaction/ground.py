"""A window that is cut, as a rung starts from it."""

from collections.abc import Sequence

from msgspec import Struct

from pod.compaction.cut import Cut
from pod.compaction.framing import without_files
from pod.entries import Directive, FileDetails
from pod.view import Window
from worker.items import Item, SystemText, UserText


class Ground(Struct, frozen=True):
    """A window that is cut: what a rung starts from.

    Tokens: *system* of the system prompt, *tools* of the tools' schemas,
    *directive_tokens* of the directives as they will stand in the context.
    """

    window: Window
    cut: Cut
    system: int
    tools: int
    directives: tuple[Directive, ...]
    directive_tokens: int
    details: FileDetails

    @property
    def overhead(self) -> int:
        return self.system + self.tools

    @property
    def items(self) -> list[Item]:
        """All that is shown, what is kept too."""
        return [shown.item for shown in self.window.shown]

    @property
    def head(self) -> list[Item]:
        """What is summarised."""
        return self.items[: self.cut.index]

    @property
    def history(self) -> list[Item]:
        """What is summarised but the first part of a turn that the cut splits."""
        return self.items[: self._turn_start]

    @property
    def turn_prefix(self) -> list[Item]:
        """The first part of a turn that the cut splits; empty where it splits none."""
        return self.items[self._turn_start : self.cut.index]

    @property
    def _turn_start(self) -> int:
        at = turn_start(self.items, self.cut.index)
        return self.cut.index if at is None else at

    @property
    def previous_summary(self) -> str:
        """The summary of what was before the window, without its lists of files."""
        compaction = self.window.compaction
        return without_files(compaction.summary) if compaction else ""

    @property
    def floor(self) -> int:
        """Tokens that are in the context afterwards whatever the summary is."""
        return self.overhead + self.directive_tokens + self.cut.kept_tokens


def turn_start(items: Sequence[Item], index: int) -> int | None:
    """Return where the turn begins that a cut at *index* splits.

    None where it splits none: the first kept item is the user's or the runtime's
    (a custom message, a branch summary), or nothing is kept, or no such item is
    before it, since an earlier compaction cut the same turn.
    """
    if index >= len(items) or _begins_turn(items[index]):
        return None
    before = (at for at in range(index - 1, -1, -1) if _begins_turn(items[at]))
    return next(before, None)


def _begins_turn(item: Item) -> bool:
    return isinstance(item, UserText | SystemText)
