"""The order in which an imported session is written, and what hangs from what.

Other agents' files are trees of messages in which a result may be missing, come
late, come twice or stand on a branch of its own. A Pod history has every call
answered once, right behind its response. So the unit here is a response with
its results: what hangs from any part of one hangs from its end. Where branches
answer the same call differently, each has its own set of results.

Held of a record: its place and ids, no text.
"""

from dataclasses import dataclass, field

from pod.importing.outline import Call, Outline
from pod.importing.records import Where
from pod.importing.steps import AnswerStep, PlainStep, ResultStep, Step
from pod.importing.tally import Tally

ORPHANS = "records whose parent is not in the file: they hang from the one before"
REPEATED = "records with an id that was used before: left out"
LATE = "results that stood elsewhere: moved behind their call"
DOUBLE = "second results for one call: left out"
LOST = "results without a call: shown as messages"
RENAMED = "call ids that were empty, used twice or not allowed: renamed"
UNANSWERED = "calls without a result: answered with an error that says so"


@dataclass(slots=True, frozen=True)
class _Place:
    """A point of the tree: a node; of a response's results, how many are there."""

    node: int
    chosen: int = 0
    length: int = 0


@dataclass(slots=True)
class _Results:
    """One set of results of a response: the slots of its calls, as they came."""

    order: list[int] = field(default_factory=list)
    found: dict[int, Outline] = field(default_factory=dict)


@dataclass(slots=True)
class _Unit:
    """A response and its results."""

    parent: _Place | None
    parts: list[Where]
    signed: bool
    key: str
    side: bool
    calls: list[Call] = field(default_factory=list)
    slots: dict[str, list[int]] = field(default_factory=dict)
    sets: list[_Results] = field(default_factory=lambda: [_Results()])


@dataclass(slots=True)
class _More:
    """Where another set of a response's results is written."""

    unit: int
    chosen: int


@dataclass(slots=True)
class _Plain:
    """Anything else. *within* is the response whose results may still come."""

    parent: _Place | None
    outline: Outline
    within: _Place | None


class Planner:
    """Takes the outlines of a file in its order, then gives the steps to write it."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._nodes: list[_Unit | _More | _Plain] = []
        self._places: dict[str, _Place | None] = {}
        self._by_key: dict[str, int] = {}
        self._by_call: dict[str, int] = {}
        self._cleared: set[str] = set()
        self._has_own = False
        self._last: _Place | None = None
        self._leaf: _Place | None = None
        self._is_all_side = True

    def add(self, one: Outline) -> None:
        """Take the next record."""
        if one.id and one.id in self._places:
            self._tally.lose(REPEATED)
            return
        self._cleared.update(one.cleared)
        self._has_own = self._has_own or one.is_own
        parent = self._parent(one)
        place = self._placed(one, parent)
        if one.id:
            self._places[one.id] = place
        self._last = place
        if not one.side or self._is_all_side:
            self._leaf = place
        self._is_all_side = self._is_all_side and one.side

    def lead(self, id: str) -> None:
        """Let *id* (of the file's header) stand for the root."""
        if id:
            self._places.setdefault(id, None)

    def _parent(self, one: Outline) -> _Place | None:
        if one.follows:
            return self._last
        if one.parent is None:
            return None
        if one.parent in self._places:
            return self._places[one.parent]
        if (unit := self._by_call.get(one.parent)) is not None:
            return _Place(unit)
        self._tally.lose(ORPHANS)
        return self._last

    def _placed(self, one: Outline, parent: _Place | None) -> _Place | None:
        match one.kind:
            case "link":
                return parent
            case "answer":
                return self._answered(one, parent)
            case "result":
                return self._resulted(one, parent)
            case "quiet":
                return self._plain(one, parent, self._within(parent))
            case "user" | "told" | "compacted":
                return self._plain(one, parent, None)

    def _plain(
        self, one: Outline, parent: _Place | None, within: _Place | None
    ) -> _Place:
        self._nodes.append(_Plain(parent, one, within))
        return _Place(len(self._nodes) - 1)

    def _within(self, place: _Place | None) -> _Place | None:
        """Return the response that a result hanging from *place* may belong to."""
        if place is None:
            return None
        node = self._nodes[place.node]
        if isinstance(node, _Plain):
            return node.within
        return place

    def _unit(self, at: int) -> _Unit:
        node = self._nodes[at]
        assert isinstance(node, _Unit)
        return node

    def _answered(self, one: Outline, parent: _Place | None) -> _Place:
        within = self._within(parent)
        known = self._by_key.get(one.key) if one.key else None
        if known is not None and within is not None and within.node == known:
            unit = self._unit(known)
            unit.parts.append(one.where)
            unit.signed = unit.signed or one.signed
            place = within
        else:
            unit = _Unit(parent, [one.where], one.signed, one.key, one.side)
            self._nodes.append(unit)
            known = len(self._nodes) - 1
            if one.key:
                self._by_key[one.key] = known
            place = _Place(known)
        for call in one.calls:
            unit.slots.setdefault(call.id, []).append(len(unit.calls))
            unit.calls.append(call)
            self._by_call[call.id] = known
        return place

    def _resulted(self, one: Outline, parent: _Place | None) -> _Place | None:
        within = self._within(parent)
        if within is not None:
            unit = self._unit(within.node)
            if one.target in unit.slots:
                return self._take(unit, within, one)
        if (known := self._by_call.get(one.target)) is not None:
            self._tally.lose(LATE)
            self._take(self._unit(known), _Place(known), one, alone=True)
            return parent
        self._tally.lose(LOST)
        return self._plain(one, parent, self._within(parent))

    def _take(
        self, unit: _Unit, at: _Place, one: Outline, *, alone: bool = False
    ) -> _Place:
        """Put a result into the set of its branch, or into a new one."""
        results = unit.sets[at.chosen]
        slots = unit.slots[one.target]
        free = [slot for slot in slots if slot not in results.found]
        chosen = at.chosen
        if not free:
            before = results.order[: at.length]
            free = [slot for slot in slots if slot not in before]
            if alone or not free:
                self._tally.lose(DOUBLE)
                return at
            results = _Results(before, {slot: results.found[slot] for slot in before})
            unit.sets.append(results)
            chosen = len(unit.sets) - 1
            self._nodes.append(_More(at.node, chosen))
        results.order.append(free[0])
        results.found[free[0]] = one
        return _Place(at.node, chosen, len(results.order))

    def steps(self) -> "Steps":
        """Return what is to be written, parents before children."""
        return Steps(
            self._nodes,
            self._leaf,
            self._places,
            self._tally,
            cleared=frozenset(self._cleared),
            has_own=self._has_own,
        )


class Steps:
    """The planned steps, in order; *leaf* is the step the session stands on."""

    def __init__(
        self,
        nodes: "list[_Unit | _More | _Plain]",
        leaf: _Place | None,
        places: dict[str, _Place | None],
        tally: Tally,
        *,
        cleared: frozenset[str],
        has_own: bool,
    ) -> None:
        self.cleared = cleared
        """Calls, as the file names them, whose results are cleared later."""
        self.has_own = has_own
        """Whether entries of Pod's own are among the records."""
        self._nodes = nodes
        self._places = places
        self._tally = tally
        self._starts: list[int] = [-1] * len(nodes)
        """The first step of each node."""
        self._ends: dict[tuple[int, int], int] = {}
        """The last step of each node, and of each set of results."""
        self._taken: set[str] = set()
        self._named: set[str] = set()
        self.all: list[Step] = []
        for at, node in enumerate(nodes):
            self._starts[at] = len(self.all)
            self._write(at, node)
        self.leaf = self._end(leaf)
        self.is_said = any(map(_says_something, self.all))
        """Whether there is anything that a model would see."""

    def start_of(self, id: str) -> int | None:
        """Return the step that the record *id* begins, or whose unit it is in."""
        place = self._places.get(id)
        return None if place is None else self._starts[place.node]

    def end_of(self, id: str) -> int | None:
        """Return the last step of the record *id*."""
        place = self._places.get(id)
        end = self._end(place)
        return None if end < 0 else end

    def _end(self, place: _Place | None) -> int:
        if place is None:
            return -1
        return self._ends[place.node, place.chosen]

    def _write(self, at: int, node: "_Unit | _More | _Plain") -> None:
        match node:
            case _Plain():
                step = PlainStep(self._end(node.parent), node.outline)
                self._ends[at, 0] = len(self.all)
                self.all.append(step)
            case _Unit():
                names = tuple(map(self._call_id, node.calls))
                if len(names) > 1:
                    self._tally.parallel += 1
                self.all.append(
                    AnswerStep(
                        self._end(node.parent),
                        tuple(node.parts),
                        names,
                        self._name(node.key),
                        node.signed,
                    )
                )
                self._results(at, 0, node, names)
            case _More():
                unit = self._nodes[node.unit]
                assert isinstance(unit, _Unit)
                answer = self.all[self._starts[node.unit]]
                assert isinstance(answer, AnswerStep)
                self._results(node.unit, node.chosen, unit, answer.call_ids)

    def _results(
        self, at: int, chosen: int, unit: _Unit, names: tuple[str, ...]
    ) -> None:
        found = unit.sets[chosen].found
        last = self._starts[at]
        for slot, (call, name) in enumerate(zip(unit.calls, names, strict=True)):
            one = found.get(slot)
            if one is None and chosen == 0:
                self._tally.unanswered += 1
                self._tally.lose(UNANSWERED)
            self.all.append(ResultStep(last, name, call, one))
            last = len(self.all) - 1
        self._ends[at, chosen] = last

    def _name(self, key: str) -> str:
        """Return a name for a response that no other one has."""
        name, number = key or "r1", 1
        while name in self._named:
            number += 1
            name = f"{key or 'r'}~{number}"
        self._named.add(name)
        return name

    def _call_id(self, call: Call) -> str:
        id = call.id
        if not is_call_id(id) or id in self._taken:
            self._tally.lose(RENAMED)
            number = len(self._taken)
            while (id := f"imported_{number}") in self._taken:
                number += 1
        self._taken.add(id)
        return id


def is_call_id(id: str) -> bool:
    """Whether the Messages API takes this as the id of a call."""
    return 0 < len(id) <= 200 and all(map(_LETTERS.__contains__, id))


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _says_something(step: Step) -> bool:
    """Whether a model would see anything of this step."""
    match step:
        case AnswerStep() | ResultStep():
            return True
        case PlainStep(outline=one):
            return one.kind != "quiet"
