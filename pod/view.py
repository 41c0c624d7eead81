"""The history as it is shown: entries in, items out, one entry at a time."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pod.compaction.framing import branch_summary_text, escaped, leading_items
from pod.entries import (
    AnyEntry,
    BranchSummary,
    BreakerChange,
    Clip,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Custom,
    CustomMessage,
    DeliveredEntry,
    HandedBack,
    InputEntry,
    ItemEntry,
    Label,
    Leaf,
    ModelChange,
    NavigationFailed,
    Notice,
    Permission,
    PromptChange,
    Prune,
    RunEnd,
    RunStart,
    SandboxChange,
    SessionInfo,
    ToolStart,
    TurnAbandoned,
    Unknown,
    UsageEntry,
)
from pod.toml_text import printable
from prompts import fill
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)


class Shown(Struct, frozen=True):
    """An item as the model sees it, and the id of the entry it comes from."""

    entry: str
    item: Item


class Window(Struct, frozen=True):
    """What a compaction works on: all since the first kept entry of the last one.

    *compaction* is that one, *entries* the path from there, *shown* their items.
    """

    compaction: Compaction | None
    entries: Sequence[AnyEntry]
    shown: Sequence[Shown]


class Problem(Struct, frozen=True):
    """Something of a path that cannot be shown as its log says; at this entry."""

    entry: str
    message: str


class View:
    """The items of a path that grows.

    Adding the entries of a path one by one gives what adding them at once does,
    and only those from the newest compaction's first kept one on are held. Of
    several compactions the newest counts. It can keep only what was shown before
    it: one that names another entry is passed over, and is a problem.

    An entry is let go of once and never looked at again: a path of any number of
    compactions is read in a time proportional to its length.
    """

    def __init__(self, path: Iterable[AnyEntry] = ()) -> None:
        self.compaction: Compaction | None = None
        """The newest one that counts."""
        self.entries: list[AnyEntry] = []
        """The path from its first kept entry on; the whole path without one."""
        self._items: list[Item] | None = []
        """None: they changed, and nobody asked for them yet."""
        self._problems: dict[str, Problem] = {}
        self._leading: list[SystemText] = []
        self._shown: dict[str, Item] = {}
        self._gone = 0
        """Entries of the path before *entries*."""
        self._places: dict[str, int] = {}
        """Where on the path each of *entries* is, by its id."""
        self._calls: dict[str, str] = {}
        """The newest call of each call id: its entry."""
        self._results: dict[str | None, list[str]] = {None: []}
        """The results of each call, by its entry; under None those without one."""
        for entry in path:
            self.add(entry)

    @property
    def items(self) -> list[Item]:
        """What the model sees. Appended to; anything else makes it a new list."""
        if self._items is None:
            self._items = [*self._leading, *self._shown.values()]
        return self._items

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def window(self) -> Window:
        """Return what a compaction works on."""
        shown = tuple(Shown(id, item) for id, item in self._shown.items())
        return Window(self.compaction, tuple(self.entries), shown)

    def add(self, entry: AnyEntry) -> None:
        """Take the next entry of the path."""
        self._places.setdefault(entry.id, self._gone + len(self.entries))
        self.entries.append(entry)
        match entry:
            case ItemEntry(item=item):
                self._show(entry.id, item)
            case (
                UsageEntry()  # the usual ones first
                | ToolStart()
                | Permission()
                | InputEntry()
                | DeliveredEntry()
                | RunStart()
                | RunEnd()
                | TurnAbandoned()
                | HandedBack()
                | ModelChange()
                | PromptChange()
                | SandboxChange()
                | SessionInfo()
                | Label()
                | Leaf()
                | Custom()
                | Notice()
                | CompactionStart()
                | CompactionFailed()
                | BreakerChange()
                | NavigationFailed()
                | Unknown()
            ):
                pass
            case CustomMessage(kind=kind, text=text):
                name = escaped(printable(kind))
                text = fill("custom_message", kind=name, text=escaped(text))
                self._show(entry.id, SystemText(text))
            case BranchSummary(summary=summary, details=details):
                if summary.strip():
                    text = branch_summary_text(summary, details)
                    self._show(entry.id, SystemText(text))
            case Compaction():
                self._compact(entry)
            case Prune():
                self._change(self._pruned(entry))
            case Clip(entry=target, text=text):
                if target in self._shown:
                    self._change({target: clipped(self._shown[target], text)})

    def _show(self, id: str, item: Item) -> None:
        if isinstance(item, ToolCall):
            self._calls[item.call_id] = id
        elif isinstance(item, ToolResult):
            called = self._calls.get(item.call_id)
            if called is None and self.compaction is not None:
                self._leave_out(id, item)
                return
            self._results.setdefault(called, []).append(id)
        self._shown[id] = item
        if self._items is not None:
            self._items.append(item)

    def _leave_out(self, id: str, result: ToolResult) -> None:
        """Its call was summarised away; every API would refuse it alone."""
        what = f"a result for {result.call_id}, whose call is not shown any more"
        self._problems[id] = Problem(id, f"{what}: it is left out")

    def _compact(self, compaction: Compaction) -> None:
        first = self._place_of_first_kept(compaction)
        if first is None:
            where = f"the compaction {compaction.id} keeps {compaction.first_kept}"
            why = "which is not in what it compacted"
            message = f"{where}, {why}: it is passed over, and nothing is left out"
            self._problems[compaction.id] = Problem(compaction.id, message)
            return
        self.compaction = compaction
        self._leading = leading_items(compaction)
        self._let_go(first)
        for id in compaction.dropped_reasoning:
            if isinstance(self._shown.get(id), Reasoning):
                del self._shown[id]
        self._items = None

    def _place_of_first_kept(self, compaction: Compaction) -> int | None:
        """Return the path index of the first entry it keeps, None where there is none.

        One that keeps nothing begins with itself.
        """
        own = self._gone + len(self.entries) - 1
        if compaction.first_kept is None:
            return own
        place = self._places.get(compaction.first_kept)
        return None if place == own else place

    def _let_go(self, first: int) -> None:
        """Let go of what is before this path index, and of results that need it."""
        dropped = self.entries[: first - self._gone]
        del self.entries[: first - self._gone]
        self._gone = first
        without_call = self._results[None]
        self._results[None] = []
        for entry in dropped:
            self._places.pop(entry.id, None)
            item = self._shown.pop(entry.id, None)
            if isinstance(item, ToolCall):
                without_call += self._results.pop(entry.id, ())
                if self._calls.get(item.call_id) == entry.id:
                    del self._calls[item.call_id]
        kept = [id for id in without_call if id in self._shown]
        for id in sorted(kept, key=self._places.__getitem__):
            result = self._shown.pop(id)
            if isinstance(result, ToolResult):
                self._leave_out(id, result)

    def _pruned(self, prune: Prune) -> dict[str, Item]:
        return {
            id: pruned(item, tokens)
            for id, tokens in zip(prune.entries, prune.tokens, strict=False)
            if (item := self._shown.get(id)) is not None
        }

    def _change(self, changed: dict[str, Item]) -> None:
        self._shown.update(changed)
        self._items = None


def pruned(item: Item, tokens: int) -> Item:
    """Return a tool result without its content, which had *tokens* tokens."""
    if not isinstance(item, ToolResult):
        return item
    return replace(item, content=f"[Output truncated - {tokens} tokens]", images=())


def clipped(item: Item, text: str) -> Item:
    """Return *item* with *text* as its content, and without its images.

    Of a call it is the arguments, a JSON object. Reasoning and blocks that Pod
    does not know are never changed.
    """
    match item:
        case UserText():
            return replace(item, text=text, images=())
        case ToolResult():
            return replace(item, content=text, images=())
        case AssistantText() | SystemText():
            return replace(item, text=text)
        case ToolCall():
            return replace(item, arguments=text)
        case Reasoning() | Opaque():
            return item


def problems_of_path(path: Iterable[AnyEntry]) -> list[Problem]:
    """Return what on a path cannot be shown as its log says."""
    return View(path).problems
