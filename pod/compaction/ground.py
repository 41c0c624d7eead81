"""A window that is cut, as every rung starts from it."""

from msgspec import Struct

from pod.compaction.cut import Cut
from pod.entries import Directive, FileDetails
from pod.view import Window
from worker.items import Item


class Ground(Struct, frozen=True):
    """A window that is cut: what every rung starts from.

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
    def head(self) -> list[Item]:
        """What is summarised."""
        return [shown.item for shown in self.window.shown[: self.cut.index]]

    @property
    def previous_summary(self) -> str:
        return self.window.compaction.summary if self.window.compaction else ""

    @property
    def floor(self) -> int:
        """Tokens that are in the context afterwards whatever the summary is."""
        return self.overhead + self.directive_tokens + self.cut.kept_tokens
