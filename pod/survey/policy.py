"""The survey's next step, decided from what the transcript shows.

Nothing is kept between two requests. What the transcript does not show any
more (after a compaction) is found out again: the files by listing them, what
was done by reading the report back.
"""

from collections.abc import Sequence

from msgspec import Struct

from pod.survey.listing import (
    Listed,
    Listing,
    batches,
    glob_call,
    list_call,
    needs_glob,
    read_listing,
)
from pod.survey.look import calls_for, cost_of, read_call, search_call, seen_in
from pod.survey.markdown import code
from pod.survey.report import (
    DONE,
    MORE,
    UNFINISHED,
    Facts,
    Report,
    beginning,
    left_out,
    overview,
    section,
    title_of,
    totals,
)
from pod.survey.state import Absent, look_back_call, report_in
from pod.survey.task import Task, task_of
from pod.survey.transcript import Call, Transcript, arguments, call_id, is_lost
from tools.text import counted
from worker.api import Request
from worker.policy import Reply, call, say

BATCH = 8
"""Files read side by side."""
BATCH_BYTES = 30_000
"""Of their answers together: a compaction must be able to keep them whole."""

MOST_FAILED_WRITES = 3

NEEDED = ("bash", "grep", "read_file", "write_file", "edit_file")


class Survey:
    """Surveys a folder and writes a report, as prompts/demo.md asks."""

    def reply(self, request: Request) -> Reply:
        """Decide the next step from *request* alone."""
        offered = {tool.name for tool in request.tools}
        if missing := [name for name in NEEDED if name not in offered]:
            return say(f"A survey needs these tools, too: {', '.join(missing)}.")
        step = _Step(task_of(request), Transcript(request), "glob" in offered)
        return step.reply()


class _Step(Struct, frozen=True):
    task: Task
    seen: Transcript
    has_glob: bool

    def reply(self) -> Reply:
        listing = self.listing()
        report = report_in(self.seen, self.task)
        if len(self.failed_writes()) >= MOST_FAILED_WRITES:
            return self.give_up()
        if isinstance(listing, Call) or report is None:
            return self.look_around(listing, needs_report=report is None)
        if isinstance(listing, str):
            return say(f"The files cannot be listed, so there is no report: {listing}")
        match report:
            case Absent():
                return self.begin(listing)
            case Report(is_ours=is_ours, title=title) if (
                not is_ours or title != title_of(self.task)
            ):
                return say(
                    f"{code(self.task.report)} is there already, and it is no report of "
                    "this survey. It stays as it is: name another file for the report."
                )
            case Report(is_finished=True):
                return self.conclude(listing, report)
            case Report():
                return self.go_on(listing, report)

    def listing(self) -> Listing | str | Call:
        """Return the listing, or why there is none, or the call to make for it."""
        by_bash, by_glob = list_call(self.task), glob_call()
        listed, globbed = self.seen.result_of(by_bash), self.seen.result_of(by_glob)
        if listed is None:
            return by_bash
        if self.has_glob and globbed is None and needs_glob(listed):
            return by_glob
        listing = read_listing(self.task, listed, globbed)
        if listing is not None:
            return listing
        return " ".join(listed.text.split())[:300]

    def look_around(
        self, listing: Listing | str | Call, *, needs_report: bool
    ) -> Reply:
        calls = [listing] if isinstance(listing, Call) else []
        if needs_report:
            calls.append(look_back_call(self.seen, self.task))
        is_glob = calls[:1] == [glob_call()]
        said = (
            "The list is not git's own: glob tells what .gitignore leaves out."
            if is_glob
            else "Looking at what is there, and at what the report says so far."
        )
        return self.make(calls, said)

    def begin(self, listing: Listing) -> Reply:
        write = Call(
            "write_file",
            arguments(path=self.task.report, content=beginning(self.task)),
        )
        batch = self.next_batch(listing.files)
        few = len(listing.files)
        said = f"Files here: {listing.total:,}. I begin the report and read {few:,}."
        if not few:
            said = f"Files here: {listing.total:,}, none to read. I write that down."
        return self.make([write, *self.asked(batch)], said)

    def go_on(self, listing: Listing, report: Report) -> Reply:
        """Put down what was read, and read on."""
        todo = [file for file in listing.files if file.path not in report.facts]
        if not todo:
            return self.finish(listing, report)
        batch = self.next_batch(todo)
        if asked := self.asked(batch):
            return self.make(asked, _reading(listing, batch))
        rest = todo[len(batch) :]
        following = self.next_batch(rest)
        said = f"Written down: {counted(len(batch), 'file')}."
        if following:
            said = _reading(listing, following)
        return self.make(
            [self.write_down(listing, batch), *self.asked(following)], said
        )

    def next_batch(self, todo: Sequence[Listed]) -> list[Listed]:
        return batches(todo, BATCH, BATCH_BYTES, cost_of)

    def asked(self, batch: Sequence[Listed]) -> list[Call]:
        """Return the calls for *batch* that have no answer in view."""
        return [
            wanted
            for file in batch
            for wanted in calls_for(file)
            if self.seen.result_of(wanted) is None
        ]

    def write_down(self, listing: Listing, batch: Sequence[Listed]) -> Call:
        sections = [self.section(listing, file) for file in batch]
        new = "\n\n".join([*sections, MORE])
        return self.edit((f"\n{MORE}\n", f"\n{new}\n"))

    def section(self, listing: Listing, file: Listed) -> str:
        read = self.seen.result_of(read_call(file))
        search = search_call(file)
        found = None if search is None else self.seen.result_of(search)
        if read is None:
            raise AssertionError(f"{file.path} was not read")
        seen = seen_in(file, read, found)
        return section(file, seen, is_first=listing.is_first(file))

    def finish(self, listing: Listing, report: Report) -> Reply:
        facts = _in_order(report)
        call = self.edit(
            (f"\n{UNFINISHED}\n", f"\n{totals(self.task, listing, facts)}\n"),
            (f"\n{MORE}\n", f"\n{DONE}\n"),
        )
        return self.make([call], "All files are read; now the totals.")

    def conclude(self, listing: Listing, report: Report) -> Reply:
        facts = _in_order(report)
        lines = [
            f"The report is in {code(self.task.report)}.",
            overview(self.task, listing, facts),
        ]
        if missing := left_out(self.task, listing, facts, names=False):
            lines.append(f"Left out: {'; '.join(missing)}.")
        return say("\n".join(lines))

    def failed_writes(self) -> list[str]:
        """Return what the last writes said, as far as they failed in a row."""
        failed: list[str] = []
        for made in reversed(self.seen.made):
            if made.call.name not in ("write_file", "edit_file"):
                continue
            if made.result is None or is_lost(made.result):
                continue
            if not made.result.is_error:
                break
            failed.append(made.result.text)
        return failed

    def give_up(self) -> Reply:
        last = " ".join(self.failed_writes()[0].split())[:300]
        return say(f"The report {code(self.task.report)} cannot be written: {last}")

    def edit(self, *edits: tuple[str, str]) -> Call:
        replaced = [{"old_text": old, "new_text": new} for old, new in edits]
        return Call("edit_file", arguments(path=self.task.report, edits=replaced))

    def make(self, calls: Sequence[Call], said: str) -> Reply:
        first = self.seen.next_number
        return call(
            *(
                (call_id(number), one.name, one.arguments)
                for number, one in enumerate(calls, start=first)
            ),
            text=said,
        )


def _in_order(report: Report) -> list[Facts]:
    return [report.facts[path] for path in sorted(report.facts)]


def _reading(listing: Listing, batch: Sequence[Listed]) -> str:
    first = listing.files.index(batch[0]) + 1
    last = listing.files.index(batch[-1]) + 1
    which = f"file {first}" if first == last else f"files {first} to {last}"
    return f"Reading {which} of {len(listing.files)}."
