"""A session: its log, the tree in it, where it stands, and what the model sees."""

import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Self

from msgspec.structs import replace

from pod.branches import destination
from pod.clock import now
from pod.compaction.breaker import Breaker, Breakers, breakers_after, breakers_of
from pod.compaction.thrash import Thrash, thrash_of
from pod.context import State, state
from pod.disk import Disk
from pod.entries import (
    AnyEntry,
    Compaction,
    DeliveredEntry,
    Header,
    InputEntry,
    Known,
    Label,
    Leaf,
    Notice,
    RunEnd,
    RunStart,
)
from pod.log import Durability, Log, NoLog, SessionLog, read_entries, read_undamaged
from pod.recovery import (
    CUT_OFF,
    Cause,
    close_compactions,
    close_left_run,
    close_run,
    cut_off_navigation,
    delivered_before,
    settled,
)
from pod.tree import Tree
from pod.view import Problem, View, Window
from worker.items import Item

Clock = Callable[[], str]
"""Tells the time as the log writes it."""


class Session:
    """One session, open for writing.

    Made by create, open or ephemeral. *on_entry* is told of each entry after it
    is written; it returns at once and never raises.
    """

    def __init__(
        self,
        header: Header,
        log: Log,
        files: Path,
        entries: Sequence[AnyEntry] = (),
        *,
        path: Path | None = None,
        clock: Clock = now,
        random: Random | None = None,
    ) -> None:
        self.header = header
        self.path = path
        """The log's; None for a session that is not kept."""
        self.files = files
        """Folder for what is too long for the log; made by whoever needs it."""
        self.tree = Tree(entries, load=None if path is None else self._read)
        self.run: str | None = None
        """The run that goes on: entries that name none belong to it."""
        self.recovered: tuple[Known, ...] = ()
        """What was appended on opening: notices, results of lost calls, a run's end."""
        self.on_entry: Callable[[Known], None] = _ignore
        self._log = log
        self._seq = entries[-1].seq if entries else 0
        self._clock = clock
        self._random = random or Random()
        self._view = View()
        self._revision = 0
        self.breakers: Breakers = breakers_of(())
        """The circuit breakers, as the path to the leaf left them."""
        self.thrash = Thrash()
        """How closely compactions follow each other on the path to the leaf."""
        self._rebuild()

    @classmethod
    def create(
        cls,
        path: Path,
        header: Header,
        *,
        durability: Durability = "fsync",
        disk: Disk | None = None,
        clock: Clock = now,
        random: Random | None = None,
    ) -> Self:
        """Begin a session in a new file. Raises as SessionLog.create does."""
        log = SessionLog.create(path, header, durability=durability, disk=disk)
        files = path.with_suffix(".files")
        return cls(header, log, files, path=path, clock=clock, random=random)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durability: Durability = "fsync",
        disk: Disk | None = None,
        clock: Clock = now,
        random: Random | None = None,
        cause: Cause = "crashed",
        kept: bool = True,
    ) -> Self:
        """Go on with a session; what a crash left undone is brought to its end.

        Calls without a result get one that says so, a run without an end gets
        one, with *cause* as its reason: see *recovered*. Not *kept*, what is
        appended stays in memory, and another process may have the session
        open. Raises as SessionLog.open does.
        """
        log: Log = NoLog()
        notices: tuple[str, ...] = ()
        if kept:
            log, header, scan, notices = SessionLog.open(
                path, durability=durability, disk=disk
            )
        else:
            header, scan = read_undamaged(path)
        try:
            session = cls(
                header,
                log,
                path.with_suffix(".files"),
                scan.entries,
                path=path,
                clock=clock,
                random=random,
            )
            session._recover(notices, cause, scan.entries)
            session._forget()
        except BaseException:
            log.close()
            raise
        return session

    @classmethod
    def ephemeral(
        cls,
        header: Header,
        entries: Sequence[AnyEntry] = (),
        *,
        clock: Clock = now,
        random: Random | None = None,
    ) -> Self:
        """Begin a session that is not kept; its files go when it is closed.

        *entries* are those of a fork: what is open in them is settled.
        """
        files = Path(tempfile.mkdtemp(prefix="pod-"))
        session = cls(header, NoLog(), files, entries, clock=clock, random=random)
        if entries:
            session._recover((), "forked", entries)
            session._forget()
        return session

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def seq(self) -> int:
        """The number of the last entry, 0 where there is none."""
        return self._seq

    @property
    def leaf(self) -> str | None:
        return self.tree.leaf

    @property
    def items(self) -> Sequence[Item]:
        """The history at the leaf. The list is the session's own: do not change it.

        It grows in place; a compaction, a prune, a clip and a navigation make it
        another list (see revision).
        """
        return self._view.items

    @property
    def revision(self) -> int:
        """Grows whenever *items* become another list: what was measured is void."""
        return self._revision

    @property
    def window(self) -> Window:
        """What a compaction works on: all since the last one's first kept entry."""
        return self._view.window()

    @property
    def problems(self) -> list[Problem]:
        """What on the path to the leaf cannot be shown as the log says."""
        return self._view.problems

    @property
    def breaker(self) -> Breaker:
        """The compact worker's circuit breaker."""
        return self.breakers["worker"]

    @property
    def pending_inputs(self) -> list[InputEntry]:
        """Inputs that were accepted, are in the history of no branch yet, and wait."""
        return list(self.tree.waiting.values())

    @property
    def state(self) -> State:
        """How things stand at the leaf; walks the whole path.

        Calls that began before the last compaction are not among those *begun*.
        """
        return state(self.header, self.recent_entries())

    def recent_entries(self) -> list[AnyEntry]:
        """Return the path to the leaf as far as it is in memory, root first.

        All from the last compaction's first kept entry on, and runs, changes of
        model and prompt, and the breaker's from before.
        """
        return self.tree.path_in_memory(self.leaf)

    def path_entries(self) -> list[AnyEntry]:
        """Return the entries from the root to the leaf.

        Behind a compaction this reads the log. Raises LogFailed.
        """
        return self.tree.path(self.leaf)

    def append(self, *entries: Known) -> tuple[Known, ...]:
        """Write entries, all or none; return them with seq, id, parent and at.

        Each hangs from the one before, the first from the leaf. An entry that
        brings an id (new_id) keeps it. One without a run gets the one that goes
        on; a RunStart begins one (named by its own id if it brings none), a RunEnd
        ends it. On DiskFull, LogFailed or ValueError nothing has changed; a Leaf
        may also read the log. Raises KeyError for a Leaf or Label whose target is
        not there.
        """
        stamped = self._stamp(entries)
        self._log.append(stamped)
        self._take(stamped)
        return stamped

    def last_words(self, *entries: Known) -> tuple[Known, ...]:
        """Append after DiskFull, into room that was held for it (64 KiB in all)."""
        stamped = self._stamp(entries)
        self._log.last_words(stamped)
        self._take(stamped)
        return stamped

    async def commit(self) -> None:
        """Return when all that was appended outlasts a power loss (see SessionLog)."""
        await self._log.commit()

    def navigate(self, target: str | None) -> str:
        """Put the leaf where *target* leads (see destination), with no summary.

        Returns the text of a message that leaves the history by it, or "".
        Raises EntryNotFound, and as move does.
        """
        place = destination(self.tree, target)
        self.move(place.leaf)
        return place.text

    def move(self, leaf: str | None, *behind: Known) -> tuple[Known, ...]:
        """Put the leaf on an entry (None: before all), as one write.

        Calls that stand unanswered there get a result that says so; *behind* is
        what is appended after that. Returns all that was written. Raises
        KeyError, and as append does.
        """
        path = self.tree.path(leaf)
        self.tree.hold(path)  # it is asked for again when the leaf is written
        there = View(path)
        added = [*settled(there.items, "left_call"), *behind]
        return self.append(Leaf(target=leaf, behind=len(added)), *added)

    def close(self) -> None:
        """Let go of the log, and of the files of a session that is not kept."""
        self._log.close()
        if self.path is None:
            shutil.rmtree(self.files, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stamp(self, entries: Sequence[Known]) -> tuple[Known, ...]:
        leaf, run, seq = self.leaf, self.run, self._seq
        at = self._clock()
        found: dict[str, Known] = {}
        taken = {entry.id for entry in entries if entry.id}
        for entry in entries:
            if (
                isinstance(entry, Leaf | Label)
                and entry.target not in self.tree
                and entry.target not in found
            ):
                raise KeyError(entry.target)
            if isinstance(entry, Leaf):
                # Read now what the rebuild needs: after the write it may not fail.
                known = self.leaf if entry.target in found else entry.target
                self.tree.hold(self.tree.path(known))
            seq += 1
            id = entry.id or self._free_id(taken)
            taken.add(id)
            if isinstance(entry, RunStart):
                run = entry.run or id
            found[id] = replace(
                entry, seq=seq, id=id, parent=leaf, at=at, run=entry.run or run
            )
            leaf = Tree.leaf_after(leaf, found[id])
            if isinstance(entry, RunEnd):
                run = None
        return tuple(found.values())

    def new_id(self) -> str:
        """Return an id that no entry has, for one that another is to refer to."""
        return self._free_id(())

    def _free_id(self, taken: Collection[str]) -> str:
        while True:
            id = f"{self._random.getrandbits(32):08x}"
            if id not in self.tree and id not in taken:
                return id

    def _take(self, entries: Sequence[Known]) -> None:
        """Let memory follow what is on the disk, then tell."""
        for entry in entries:
            self.tree.add(entry)
            self._seq = entry.seq
            if isinstance(entry, Leaf):
                self._rebuild()
                self._forget()
            else:
                self._see(entry)
            if isinstance(entry, RunStart):
                self.run = entry.run
            elif isinstance(entry, RunEnd):
                self.run = None
        for entry in entries:
            self.on_entry(entry)

    def _see(self, entry: Known) -> None:
        self.breakers = breakers_after(self.breakers, (entry,))
        self.thrash = self.thrash.after(entry)
        before = self._view.items
        self._view.add(entry)
        if self._view.items is not before:
            self._revision += 1
        if isinstance(entry, Compaction):
            self._forget()

    def _rebuild(self) -> None:
        path = self.path_entries()
        self._view = View(path)
        self.breakers, self.thrash = breakers_of(path), thrash_of(path)
        self._revision += 1
        self.tree.hold(self._view.entries)

    def _forget(self) -> None:
        """Let go of what the latest compaction replaced; the log keeps it."""
        if self._view.compaction is not None:
            self.tree.free({entry.id for entry in self._view.entries})

    def _read(self, ids: Collection[str]) -> Mapping[str, AnyEntry]:
        if self.path is None:
            return {}
        return read_entries(self.path, ids)

    def _recover(
        self, notices: Sequence[str], cause: Cause, entries: Sequence[AnyEntry]
    ) -> None:
        undone: tuple[Known, ...] = ()
        if (cut := cut_off_navigation(entries)) is not None:
            self.recovered = undone = self.append(
                Leaf(target=cut.parent), Notice(message=CUT_OFF)
            )
        path = self.path_entries()
        before = state(self.header, path)
        lost = before.open_run
        if lost and lost.run not in self.tree.running:
            lost = None  # the leaf was moved into a run that ended on its branch
        elsewhere = [run for run in self.tree.running.values() if run != lost]
        if lost:
            self.run = lost.run
        told = {entry.message for entry in entries if isinstance(entry, Notice)}
        found: list[Known] = [
            Notice(message=message)
            for message in (*notices, *(problem.message for problem in self.problems))
            if message in notices or message not in told
        ]
        found += close_compactions(self.tree.compacting.values(), path, cause)
        if inputs := delivered_before(path, self.pending_inputs):
            found.append(DeliveredEntry(inputs=inputs))
        if cause == "forked":
            found += settled(self.items, "left_call")
        else:
            found += settled(self.items, "crashed_call", before.begun)
        found += [close_left_run(path, run, cause) for run in elsewhere]
        if lost:
            found.append(close_run(path, lost, cause))
        if found:
            self.recovered = (*undone, *self.append(*found))


def _ignore(entry: Known) -> None:
    """Tell nobody."""
