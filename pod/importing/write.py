"""Writes a planned session: entries with ids, parents and numbers, in batches."""

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pod.codec import BadLine, decode, encode, rewrite
from pod.entries import (
    ASIDE,
    BranchSummary,
    Clip,
    Compaction,
    CompactionStart,
    Custom,
    ItemEntry,
    Known,
    Label,
    ModelChange,
    Notice,
    Prune,
    Reason,
)
from pod.importing.build import (
    Images,
    answer_entries,
    details_of,
    directives_of,
    plain_entry,
    result_entry,
)
from pod.importing.outline import Outline
from pod.importing.own import OWN_KINDS
from pod.importing.plan import Steps
from pod.importing.records import (
    Answer,
    Cleared,
    Compacted,
    Labelled,
    ModelSet,
    Own,
    Record,
    Result,
    Summarised,
    Where,
)
from pod.importing.steps import AnswerStep, PlainStep, ResultStep
from pod.importing.tally import Tally
from pod.importing.times import moment
from pod.importing.windows import Kept
from worker.items import Reasoning, ToolCall

NO_TARGET = "labels of records that are not in the file: left out"
BAD_OWN = "entries of an export that cannot be taken back: left out"
CHARACTERS_A_TOKEN = 4
"""For the number that stands in place of a result that was left out."""

Load = Callable[[Where], Record]


class Writer:
    """Gives the lines of the log behind its header, parents before children."""

    def __init__(
        self,
        steps: Steps,
        kept: dict[int, Kept],
        load: Load,
        images: Images,
        tally: Tally,
        *,
        now: str,
    ) -> None:
        self._steps = steps
        self._kept = kept
        self._load = load
        self._images = images
        self._tally = tally
        self._at = now
        self._seq = 0
        self._firsts: list[str | None] = []
        self._lasts: list[str | None] = []
        """First and last entry of each step; children hang from the last."""
        self._reasoning: dict[int, tuple[str, ...]] = {}
        self._ids: dict[str, str] = {}
        """Entries by the id they had in the file."""
        self._calls: set[str] = set()
        """Entries of calls, where a clip may come."""
        self._results: dict[str, tuple[str, int]] = {}
        """The newest result of each call: its entry, and about its tokens."""
        self._models: list[str] = []
        self._model_names: dict[str, str] = {}

    def lines(self, origin: Notice, report: Callable[[], Custom]) -> Iterator[bytes]:
        """Give the lines; *report* is asked at the end and becomes the leaf."""
        yield self._line(origin, None)
        for at, step in enumerate(self._steps.all):
            parent = self._lasts[step.parent] if step.parent >= 0 else None
            self._firsts.append(None)
            self._lasts.append(parent)
            self._models.append(self._models[step.parent] if step.parent >= 0 else "")
            match step:
                case AnswerStep():
                    yield from self._answer(at, step)
                case ResultStep():
                    yield from self._result(at, step)
                case PlainStep():
                    yield from self._plain(at, step)
        leaf = self._lasts[self._steps.leaf] if self._steps.leaf >= 0 else None
        yield self._line(report(), leaf)

    def _answer(self, at: int, step: AnswerStep) -> Iterator[bytes]:
        records = [
            record
            for where in step.parts
            if isinstance(record := self._load(where), Answer)
        ]
        self._time(records[0])
        model = records[-1].model or self._models[at]
        if model != self._models[at]:
            change = ModelChange(model=model, previous=self._models[at] or None)
            yield self._put(at, change)
            self._set_model(at, model)
        reasoning: list[str] = []
        for made in answer_entries(step, records, model, self._tally):
            yield self._put(at, made.entry)
            id = self._lasts[at]
            assert id is not None
            if made.was:
                self._ids[made.was] = id
            match made.entry:
                case ItemEntry(item=Reasoning()):
                    reasoning.append(id)
                case ItemEntry(item=ToolCall()) if self._steps.has_own:
                    self._calls.add(id)
                case _:
                    pass
        if reasoning:
            self._reasoning[at] = tuple(reasoning)
        for record in records:
            self._name(at, record)

    def _result(self, at: int, step: ResultStep) -> Iterator[bytes]:
        result: Result | None = None
        if step.outline is not None:
            record = self._load(step.outline.where)
            self._time(record)
            if isinstance(record, Result):
                result = record
        entry = result_entry(step.call_id, step.call, result, self._images, self._tally)
        yield self._put(at, entry)
        id = self._lasts[at]
        assert id is not None
        if step.call.id in self._steps.cleared:
            size = step.outline.size if step.outline else 0
            self._results[step.call.id] = id, size // CHARACTERS_A_TOKEN
        if result is not None:
            self._name(at, result, id=step.outline.id if step.outline else "")

    def _plain(self, at: int, step: PlainStep) -> Iterator[bytes]:
        record = self._load(step.outline.where)
        self._time(record)
        match record:
            case Compacted():
                yield from self._compaction(at, record, step.outline)
            case Cleared():
                yield from self._cleared(at, record)
            case Labelled():
                yield from self._label(at, record)
            case Summarised():
                yield from self._summary(at, record)
            case Own():
                yield from self._own(at, record, step.outline.id)
            case ModelSet(model=model) if model == self._models[at]:
                pass
            case _:
                entry = plain_entry(record, self._models[at], self._images, self._tally)
                if isinstance(record, ModelSet):
                    self._set_model(at, record.model)
                if entry is not None:
                    yield self._put(at, entry)
        self._name(at, record, id=step.outline.id)

    def _compaction(
        self, at: int, record: Compacted, outline: Outline
    ) -> Iterator[bytes]:
        before = self._lasts[at]
        kept = self._kept[at]
        first = None if kept.first is None else self._first_of(kept.first)
        dropped = [
            id for answer in kept.dropped for id in self._reasoning.get(answer, ())
        ]
        own = _own_compaction(record.own, self._ids)
        if own is not None:
            entry = replace(
                own,
                run=None,
                first_kept=first,
                compacted_from=before or "",
                dropped_reasoning=tuple(
                    dict.fromkeys([*own.dropped_reasoning, *dropped])
                ),
            )
            yield self._put(at, entry)
            return
        reason: Reason = "manual" if outline.is_manual else "mid_turn"
        compaction_id = f"c{self._seq + 1:07x}"
        start = CompactionStart(
            compaction_id=compaction_id,
            reason=reason,
            mode="summarize",
            tokens_before=outline.size,
        )
        yield self._put(at, start)
        entry = Compaction(
            compaction_id=compaction_id,
            reason=reason,
            mode="summarize",
            summary=record.summary,
            first_kept=first,
            compacted_from=before or "",
            tokens_before=outline.size,
            tokens_after=record.tokens_after,
            directives=directives_of(record),
            details=details_of(record),
            short_summary=record.short_summary,
            preserve_data=record.preserve_data,
            from_hook=record.from_hook,
            dropped_reasoning=tuple(dropped),
        )
        yield self._put(at, entry)

    def _first_of(self, at: int) -> str | None:
        """Return the entry that keeps a step and what follows it."""
        step = self._steps.all[at]
        if isinstance(step, PlainStep) and step.outline.kind == "compacted":
            return self._lasts[at]  # what led to it goes with what it replaced
        return self._firsts[at]

    def _summary(self, at: int, record: Summarised) -> Iterator[bytes]:
        step = self._steps.end_of(record.from_id)
        left = None if step is None or step >= at else self._lasts[step]
        entry = BranchSummary(
            from_id=left or self._lasts[at] or "",
            summary=record.summary,
            details=details_of(record),
            from_hook=record.from_hook,
        )
        yield self._put(at, entry)

    def _cleared(self, at: int, record: Cleared) -> Iterator[bytes]:
        found = [self._results[call] for call in record.calls if call in self._results]
        entry = Prune(
            entries=tuple(id for id, _ in found),
            tokens=tuple(tokens for _, tokens in found),
            saved=record.saved,
        )
        yield self._put(at, entry)

    def _label(self, at: int, record: Labelled) -> Iterator[bytes]:
        step = self._steps.end_of(record.target)
        target = None if step is None or step >= at else self._lasts[step]
        if target is None:
            self._tally.lose(NO_TARGET)
        else:
            yield self._put(at, Label(target=target, label=record.label))

    def _own(self, at: int, record: Own, step_id: str) -> Iterator[bytes]:
        seq = self._seq + 1
        id = f"{seq:08x}"
        if _tag(record.json) not in OWN_KINDS:
            self._tally.lose(BAD_OWN)
            return
        if step_id:
            self._ids[step_id] = id
        try:
            line = rewrite(
                record.json.encode(), self._ids, seq=seq, id=id, parent=self._lasts[at]
            )
            entry = decode(line)
        except (BadLine, UnicodeEncodeError):
            self._tally.lose(BAD_OWN)
            return
        if isinstance(entry, Clip) and not _stands(entry, self._calls):
            self._tally.lose(BAD_OWN)
            return
        self._seq = seq
        self._took(at, id, is_aside=isinstance(entry, ASIDE))
        yield line

    def _put(self, at: int, entry: Known) -> bytes:
        """Return the line of the next entry of a step."""
        line = self._line(entry, self._lasts[at])
        self._took(at, f"{self._seq:08x}", is_aside=isinstance(entry, ASIDE))
        return line

    def _took(self, at: int, id: str, *, is_aside: bool) -> None:
        if is_aside:
            return
        if self._firsts[at] is None:
            self._firsts[at] = id
        self._lasts[at] = id

    def _line(self, entry: Known, parent: str | None) -> bytes:
        self._seq += 1
        stamped = replace(
            entry, seq=self._seq, id=f"{self._seq:08x}", parent=parent, at=self._at
        )
        return encode(stamped)

    def _time(self, record: Record) -> None:
        """Let what follows have the record's time; one without keeps the last."""
        self._at = moment(record.at) or self._at

    def _name(self, at: int, record: Record, *, id: str = "") -> None:
        last = self._lasts[at]
        id = id or record.id
        if id and last is not None and self._steps.has_own:
            self._ids[id] = last

    def _set_model(self, at: int, model: str) -> None:
        self._models[at] = self._model_names.setdefault(model, model)


class _Tagged(Struct):
    type: str = ""


def _tag(json: str) -> str:
    """Return the kind of an entry, "" for what is none."""
    try:
        return msgspec.json.decode(json, type=_Tagged).type
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ""


def _own_compaction(json: str, ids: Mapping[str, str]) -> Compaction | None:
    """Return a compaction of Pod's own, its references those of the new log."""
    if _tag(json) != "compaction":
        return None
    try:
        entry = decode(rewrite(json.encode(), ids))
    except (BadLine, UnicodeEncodeError):
        return None
    return entry if isinstance(entry, Compaction) else None


def _stands(clip: Clip, calls: Collection[str]) -> bool:
    """Whether a clip can be shown: in place of a call's arguments only an object."""
    if clip.entry not in calls:
        return True
    try:
        msgspec.json.decode(clip.text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True
