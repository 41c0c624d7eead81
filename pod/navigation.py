"""Moving a session's leaf to another entry, with a summary of what is left behind.

One navigation: look where it leads, ask the hooks, have the branch summarised
where that is wanted, and write all of it at once. Until that write nothing has
changed: a cancel, a failure or a hook leaves the session where it was.
"""

from collections.abc import Callable
from contextlib import suppress

import trio
from msgspec import Struct
from msgspec.structs import replace

from pod.branch_summary.content import NO_CONTENT, has_content
from pod.branch_summary.summary import Summarizer
from pod.branch_summary.wish import Wish, problem_of, summary_of_hook, with_answer
from pod.branches import Destination, LeftBehind, destination, left_behind
from pod.compaction.entry import dollars
from pod.entries import (
    BranchSummary,
    InputEntry,
    Known,
    Label,
    NavigationFailed,
)
from pod.errors import LogFailed, NavigationMissed, NavigationRefused
from pod.events import NavigateStart
from pod.hooks.answers import HookSummary
from pod.hooks.hooks import Hooks
from pod.hooks.payloads import BeforeTree, Navigated
from pod.session import Session
from worker.cancelled import is_cancel
from worker.crash import crash_text
from worker.events import Warning
from worker.limits import Spent


class Navigation(Struct, frozen=True):
    """What became of a navigation.

    *text* is that of the message that was gone back to, *entry* the branch
    summary. *new_leaf* is where the session stands now. *cancelled*: by a hook or
    by hand; *message* says why; then the leaf is the old one.
    """

    old_leaf: str | None
    new_leaf: str | None
    text: str = ""
    entry: BranchSummary | None = None
    cancelled: bool = False
    message: str = ""


Tell = Callable[[NavigateStart | Warning], None]


async def navigate(
    session: Session,
    target: str | None,
    *,
    summarize: bool = False,
    instructions: str = "",
    replace_instructions: bool = False,
    label: str = "",
    hooks: Hooks | None = None,
    summarizer: Summarizer | None = None,
    tell: Tell | None = None,
    abort: trio.CancelScope | None = None,
) -> Navigation:
    """Put *session*'s leaf where *target* leads (None: before all); see destination.

    With *summarize* what is left behind is summarised first. The caller sees to
    it that nothing else (a run, a compaction) changes the session meanwhile;
    input may be accepted, and waits where the session goes.

    The order: during a run or a compaction it is refused; where the leaf is the
    target already nothing happens, but for the *label*; then the target is looked
    for, the entries collected, the hooks asked, the branch summarised, and the
    leaf, the summary and the label written as one and durably. What of the new
    path cannot be shown as the log says is told as warnings. Cancelling *abort*
    until then gives a cancelled navigation; a cancel from outside passes.

    Raises EntryNotFound, NavigationRefused (a run or a compaction is under way,
    there is nothing to summarise, or no model to do it), NavigationMissed (no
    summary came of it), LogFailed: then the leaf is where it was.
    """
    wish = Wish(summarize, instructions, replace_instructions, label)
    return await _Navigation(
        session,
        target,
        wish,
        hooks=hooks or Hooks(),
        summarizer=summarizer,
        tell=tell or _nobody,
        abort=abort or trio.CancelScope(),
    ).run()


class _Navigation:
    """One navigation under way."""

    def __init__(
        self,
        session: Session,
        target: str | None,
        wish: Wish,
        *,
        hooks: Hooks,
        summarizer: Summarizer | None,
        tell: Tell,
        abort: trio.CancelScope,
    ) -> None:
        self._session = session
        self._target = target
        self._wish = wish
        self._hooks = hooks
        self._summarizer = summarizer
        self._tell = tell
        self._abort = abort
        self._old = session.leaf
        self._spent = Spent()
        """What the branch summary used, whatever comes of it."""

    async def run(self) -> Navigation:
        if self._session.run is not None:
            raise NavigationRefused("A run is under way: it has to end first")
        if self._session.tree.compacting:
            raise NavigationRefused("A compaction is under way: it has to end first")
        if self._target == self._old:
            return await self._stay()
        place = destination(self._session.tree, self._target)
        behind = left_behind(self._session.tree, self._old, place.leaf)
        entry: BranchSummary | None = None
        with self._abort:
            answer = await self._hooks.before_tree(self._payload(behind))
            if answer.cancel:
                return self._cancelled(answer.message or "a hook cancelled it")
            self._wish = with_answer(self._wish, answer)
            entry = await self._summary(place, behind, answer.summary)
        if self._abort.cancelled_caught:
            return self._cancelled("cancelled")
        return await self._commit(place, entry)

    async def _stay(self) -> Navigation:
        if self._wish.label and self._old is not None:
            self._session.append(Label(target=self._old, label=self._wish.label))
            await self._session.commit()
        return Navigation(self._old, self._old)

    def _cancelled(self, message: str) -> Navigation:
        return Navigation(self._old, self._old, cancelled=True, message=message)

    def _payload(self, behind: LeftBehind) -> BeforeTree:
        return BeforeTree(
            session=self._session.id,
            target=self._target,
            old_leaf=self._old,
            common_ancestor=behind.ancestor,
            entries=tuple(entry.id for entry in behind.entries),
            wants_summary=self._wish.summarize,
            instructions=self._wish.instructions,
            replace_instructions=self._wish.replace_instructions,
            label=self._wish.label,
        )

    async def _summary(
        self, place: Destination, behind: LeftBehind, given: HookSummary | None
    ) -> BranchSummary | None:
        """Return the summary that is wanted, None for none.

        Where nothing is left behind (the way leads further down the same branch)
        there is nothing to summarise, and going there is all that was asked for.
        """
        wants = self._wish.summarize and bool(behind.entries)
        made = self._of_hook(given, behind) if wants and given is not None else None
        asked = self._summarizer_for(behind) if wants and made is None else None
        self._tell(
            NavigateStart(
                target=self._target,
                old_leaf=self._old,
                new_leaf=place.leaf,
                entries=len(behind.entries),
                summarize=asked is not None,
            )
        )
        return made if asked is None else await self._ask(asked, behind)

    def _summarizer_for(self, behind: LeftBehind) -> Summarizer:
        if self._summarizer is None:
            raise NavigationRefused("No model available for summarization")
        if not has_content(behind.entries):
            raise NavigationRefused(NO_CONTENT)
        return self._summarizer

    def _of_hook(self, given: HookSummary, behind: LeftBehind) -> BranchSummary | None:
        """Return what a hook wrote, None (and a warning) where it cannot be used."""
        if wrong := problem_of(given):
            self._tell(Warning(message=f"a hook's branch summary {wrong}: not used"))
            return None
        return summary_of_hook(given, behind.entries)

    async def _ask(self, summarizer: Summarizer, behind: LeftBehind) -> BranchSummary:
        """Have the branch summarised; what goes wrong stands in the log."""
        started = trio.current_time()
        try:
            made = await summarizer.summarize(
                behind.entries,
                spent=self._spent,
                instructions=self._wish.instructions,
                replace_instructions=self._wish.replace_instructions,
            )
        except BaseException as error:
            with suppress(LogFailed):
                await self._failed(_missed(error), trio.current_time() - started)
            raise
        return BranchSummary(
            from_id="",
            summary=made.text,
            details=made.details,
            summarised=made.summarised,
            left_out=made.left_out,
            model=made.model,
            usage=self._spent.usage,
            cost_usd=dollars(self._spent.cost),
            seconds=made.seconds,
        )

    async def _failed(self, missed: NavigationMissed, seconds: float) -> None:
        with trio.CancelScope(shield=True):
            self._session.append(
                NavigationFailed(
                    target=self._target,
                    code=missed.code,
                    message=str(missed),
                    usage=self._spent.usage,
                    cost_usd=dollars(self._spent.cost),
                    seconds=round(seconds, 3),
                )
            )
            await self._session.commit()

    async def _commit(
        self, place: Destination, entry: BranchSummary | None
    ) -> Navigation:
        """Move the leaf, with all that belongs to it, in one durable write."""
        session = self._session
        try:
            self._refuse_moved()
        except NavigationMissed as error:
            await self._failed(error, 0.0)
            raise
        left = session.leaf
        behind: list[Known] = []
        labelled = place.entry
        if entry is not None and left is not None:
            entry = replace(entry, id=session.new_id(), from_id=left)
            behind, labelled = [entry], entry.id
        if self._wish.label and labelled is not None:
            behind.append(Label(target=labelled, label=self._wish.label))
        with trio.CancelScope(shield=True):
            written = session.move(place.leaf, *behind)
            await session.commit()
        for problem in session.problems:
            self._tell(Warning(message=problem.message))
        found = next((e for e in written if isinstance(e, BranchSummary)), None)
        await self._hooks.tree(
            Navigated(
                session=session.id,
                old_leaf=left,
                new_leaf=session.leaf,
                entry=found,
                from_hook=found is not None and found.from_hook,
            )
        )
        return Navigation(left, session.leaf, place.text, found)

    def _refuse_moved(self) -> None:
        """Raise NavigationMissed where the session went on meanwhile.

        Then what was summarised is not what would be left. Input that was accepted
        is nothing of the kind: it waits, wherever it hangs.
        """
        tree = self._session.tree
        since = left_behind(tree, self._session.leaf, self._old)
        are_inputs = all(isinstance(entry, InputEntry) for entry in since.entries)
        if since.ancestor != self._old or not are_inputs:
            raise NavigationMissed(
                "the session went on while the branch was summarised: nothing was"
                " moved",
                code="moved",
            )


def _missed(error: BaseException) -> NavigationMissed:
    """Return why no summary came about."""
    if isinstance(error, NavigationMissed):
        return error
    if is_cancel(error) or isinstance(error, KeyboardInterrupt):
        return NavigationMissed("cancelled", code="cancelled")
    if isinstance(error, NavigationRefused):
        return NavigationMissed(str(error), code="empty")
    return NavigationMissed(crash_text(error), code="crashed")


def _nobody(event: NavigateStart | Warning) -> None:
    """Tell nobody."""
