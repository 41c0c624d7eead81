"""The files a compact worker wants in front of the model, and what they cost."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tools.base import ToolError
from worker.compact.task import Mark

HALF_SPENT = "Budget half consumed. Consider calling write_summary soon."


class Referenced(Struct, frozen=True):
    """What add_reference did: how long the list is, and the tokens given back."""

    length: int
    refunded: int


class AutoReadBudget:
    """Marks and references of one compact worker.

    The marks together never cost more than *tokens*, no two of them overlap,
    and no marked file is a reference. A path is absolute.
    """

    def __init__(self, tokens: int, references: Iterable[str] = ()) -> None:
        self._tokens = tokens
        self._marks: list[Mark] = []
        self._references = dict.fromkeys(references)
        self._half: Literal["left", "spent", "due", "told"] = "left"

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks that stand, in the order they were made."""
        return tuple(self._marks)

    @property
    def references(self) -> tuple[str, ...]:
        """The files that are named only: default ones first, marked ones left out."""
        marked = {mark.path for mark in self._marks}
        return tuple(path for path in self._references if path not in marked)

    @property
    def known(self) -> tuple[str, ...]:
        """All files that were ever references, marked ones included."""
        return tuple(self._references)

    @property
    def spent(self) -> int:
        return sum(mark.tokens for mark in self._marks)

    def mark(self, mark: Mark) -> str:
        """Take *mark* in place of those it overlaps; return the answer to the call.

        Raises ToolError where the budget is too small; then nothing changes.
        """
        rest = [other for other in self._marks if not _overlap(mark, other)]
        remaining = self._tokens - sum(other.tokens for other in rest) - mark.tokens
        if remaining < 0:
            raise ToolError(
                f"Error: auto-read budget exhausted ({self._tokens} tokens)."
                " Remove an existing mark or use add_reference instead."
            )
        self._marks = [*rest, mark]
        if remaining * 2 <= self._tokens and self._half == "left":
            self._half = "spent"
        return f"Marked. Budget: {remaining}/{self._tokens} tokens remaining"

    def add_reference(self, path: str) -> Referenced:
        """Name *path* without its contents; marks on it are taken back."""
        before = self.spent
        self._marks = [mark for mark in self._marks if mark.path != path]
        self._references.setdefault(path)
        return Referenced(len(self.references), before - self.spent)

    def reminder(self) -> str | None:
        """Return what a tool result says besides; ask for each one, when it is made.

        That is HALF_SPENT, once: with the result after that of the mark by
        which half was spent.
        """
        match self._half:
            case "spent":
                self._half = "due"
            case "due":
                self._half = "told"
                return HALF_SPENT
            case "left" | "told":
                pass
        return None


def _overlap(one: Mark, other: Mark) -> bool:
    if one.path != other.path:
        return False
    start, end = one.start or 1, other.start or 1
    return (one.end is None or end <= one.end) and (
        other.end is None or start <= other.end
    )
