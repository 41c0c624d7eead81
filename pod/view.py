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
    """

    def __init__(self, path: Iterable[AnyEntry] = ()) -> None:
        self.items: list[Item] = []
        """What the model sees. Appended to; anything else makes it a new list."""
        self._problems: dict[str, Problem] = {}
        self.compaction: Compaction | None = None
        """The newest one that counts."""
        self.entries: list[AnyEntry] = []
        """The path from its first kept entry on; the whole path without one."""
        self._leading: list[SystemText] = []
        self._shown: dict[str, Item] = {}
        self._calls: set[str] = set()
        for entry in path:
            self.add(entry)

    @property
    def problems(self) -> list[Problem]:
        return list(self._problems.values())

    def window(self) -> Window:
        """Return what a compaction works on."""
        shown = tuple(Shown(id, item) for id, item in self._shown.items())
        return Window(self.compaction, tuple(self.entries), shown)

    def add(self, entry: AnyEntry) -> None:
        """Take the next entry of the path."""
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
            self._calls.add(item.call_id)
        elif (
            isinstance(item, ToolResult)
            and self.compaction is not None
            and item.call_id not in self._calls
        ):
            # Its call was summarised away; every API would refuse it alone.
            what = f"a result for {item.call_id}, whose call is not shown any more"
            self._problems[id] = Problem(id, f"{what}: it is left out")
            return
        self._shown[id] = item
        self.items.append(item)

    def _compact(self, compaction: Compaction) -> None:
        kept = self._kept(compaction.first_kept)
        if kept is None:
            where = f"the compaction {compaction.id} keeps {compaction.first_kept}"
            why = "which is not in what it compacted"
            message = f"{where}, {why}: it is passed over, and nothing is left out"
            self._problems[compaction.id] = Problem(compaction.id, message)
            return
        self.compaction = compaction
        self._leading = leading_items(compaction)
        self.entries = []
        self._shown = {}
        self._calls = set()
        self.items = [*self._leading]
        for entry in kept:
            if isinstance(entry, Compaction):
                self.entries.append(entry)
                if entry.id not in self._problems:
                    self._drop(entry.dropped_reasoning)
            else:
                self.add(entry)
        self.entries.append(compaction)
        self._drop(compaction.dropped_reasoning)

    def _kept(self, first: str | None) -> list[AnyEntry] | None:
        """Return the entries from *first* to before the last one, None without it."""
        before = self.entries[:-1]
        if first is None:
            return []
        found = (at for at, entry in enumerate(before) if entry.id == first)
        at = next(found, None)
        return None if at is None else before[at:]

    def _drop(self, reasoning: Sequence[str]) -> None:
        if not reasoning:
            return
        for id in reasoning:
            if isinstance(self._shown.get(id), Reasoning):
                del self._shown[id]
        self._change({})

    def _pruned(self, prune: Prune) -> dict[str, Item]:
        return {
            id: pruned(item, tokens)
            for id, tokens in zip(prune.entries, prune.tokens, strict=False)
            if (item := self._shown.get(id)) is not None
        }

    def _change(self, changed: dict[str, Item]) -> None:
        self._shown.update(changed)
        self.items = [*self._leading, *self._shown.values()]


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
