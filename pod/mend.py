"""Decides how a damaged log becomes a whole one; pure, in one pass.

What is whole is kept: lines that fit are copied byte for byte, the others get
another seq, id or parent and keep the rest. Nothing that was lost is invented.
"""

from collections.abc import Iterable, Iterator

from pod.codec import BadLine, encode, rewrite
from pod.entries import ASIDE, AnyEntry, Header, Label, Leaf, Notice
from pod.scan import Damage, End, Record

_TOLD = 20
"""Lines of the report that go into the new log: what a person reads."""


class Mend:
    """Takes the parts of a log in their order and gives the lines of the new one.

    *report* says what was lost or changed, each with its line in the old log.
    """

    def __init__(self, id: str) -> None:
        self.report: list[str] = []
        self._id = id
        self._seq = 0
        self._leaf: str | None = None
        self._ids: dict[str, str] = {}
        """New id of each entry, by its old one."""
        self._renamed: dict[str, str] = {}
        """Of those the ones that are another: whoever refers to one means the new."""
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The number that the last repetition of an id got."""
        self._lost: dict[str, str | None] = {}
        """What took the place of an entry that is not there, by its id."""
        self._old_seq = 0
        self._raw: dict[str, int] = {}
        """Hash of each entry's bytes, by its old id."""

    def lines(self, parts: Iterable[Header | Record | Damage | End]) -> Iterator[bytes]:
        """Give the new log's lines, the header first."""
        begun = False
        for part in parts:
            if isinstance(part, Header):
                begun = True
                yield encode(part)
            elif isinstance(part, Damage):
                self._note(part)
            elif isinstance(part, Record):
                if not begun:
                    begun = True
                    yield encode(self._header(part))
                yield from self._record(part)

    def notice(self, at: str, id: str) -> bytes:
        """Return the line that tells of the repair."""
        while id in self._taken:
            id += "0"
        told, more = self.report[:_TOLD], len(self.report) - _TOLD
        rest = [f"And {more} more."] if more > 0 else []
        message = " ".join(["The log was repaired.", *told, *rest])
        entry = Notice(
            seq=self._seq + 1, id=id, parent=self._leaf, at=at, message=message
        )
        return encode(entry)

    def _header(self, first: Record) -> Header:
        self.report.append(
            "The header is lost, and with it the system prompt and the working"
            " folder: go on with --refresh-prompt."
        )
        return Header(format=1, id=self._id, at=first.entry.at, cwd="", system="")

    def _note(self, damage: Damage) -> None:
        where = f"Line {damage.line}, byte {damage.offset}"
        if damage.kind == "unreadable":
            what = f"{damage.length} bytes are lost ({damage.reason})"
        else:
            what = damage.reason
        self.report.append(f"{where}: {what}.")

    def _record(self, record: Record) -> Iterator[bytes]:
        entry = record.entry
        try:
            plain = rewrite(record.raw, {})
        except BadLine as error:
            self._note(
                Damage(
                    record.line,
                    record.offset,
                    len(record.raw),
                    "unreadable",
                    str(error),
                )
            )
            return
        self._gap(record)
        raw = hash(record.raw)
        if self._raw.setdefault(entry.id, raw) == raw and entry.id in self._ids:
            self.report.append(f"Line {record.line}: entry {entry.id} again; left out.")
            return
        if isinstance(entry, Label) and entry.target not in self._ids:
            self.report.append(
                f"Line {record.line}: a label for {entry.target}, which is lost."
            )
            return
        # Before it has a name of its own: who refers to its id means one before it.
        meant = rewrite(record.raw, self._renamed) if self._renamed else plain
        self._seq += 1
        was: dict[str, object] = {"seq": entry.seq, "parent": entry.parent}
        now: dict[str, object] = {"seq": self._seq}
        now["parent"] = self._resolve(record, entry.parent, "parent")
        target: str | None = None
        if isinstance(entry, Leaf | Label):
            was["target"] = entry.target
            now["target"] = target = self._resolve(record, entry.target, "target")
        was["id"] = entry.id
        now["id"] = id = self._name(record)
        self._stand(entry, id, target)
        if now != was or meant != plain:
            yield rewrite(meant, {}, **now)
        else:
            yield record.raw + b"\n"

    def _gap(self, record: Record) -> None:
        """Report entries that are missing before this one."""
        seq = record.entry.seq
        if seq > self._old_seq + 1:
            first, last = self._old_seq + 1, seq - 1
            if first == last:
                missing = f"an entry before it is missing (seq {first})"
            else:
                missing = (
                    f"{last - first + 1} entries before it are missing"
                    f" (seq {first} to {last})"
                )
            self.report.append(f"Line {record.line}: {missing}.")
        self._old_seq = max(seq, self._old_seq)

    def _resolve(self, record: Record, old: str | None, what: str) -> str | None:
        """Return the new id of an entry that came before, or who stands in for it."""
        if old is None:
            return None
        if old in self._ids:
            return self._ids[old]
        if old not in self._lost:
            self._lost[old] = self._leaf
            self.report.append(
                f"Line {record.line}: its {what} {old} is not before it; "
                + (f"{self._leaf} takes its place." if self._leaf else "now a root.")
            )
        return self._lost[old]

    def _name(self, record: Record) -> str:
        """Return the entry's id: its own, unless another has it already."""
        id = record.entry.id
        number = self._numbers.get(id, 1)
        while id in self._taken:
            number += 1
            id = f"{record.entry.id}-{number}"
        self._numbers[record.entry.id] = number
        if id != record.entry.id:
            self.report.append(
                f"Line {record.line}: id {record.entry.id} for the second time,"
                f" now {id}."
            )
            self._renamed[record.entry.id] = id
        self._taken.add(id)
        self._ids[record.entry.id] = id
        return id

    def _stand(self, entry: AnyEntry, id: str, target: str | None) -> None:
        if isinstance(entry, Leaf):
            self._leaf = target
        elif not isinstance(entry, ASIDE):
            self._leaf = id
