"""``pod compact``: make room in a session by hand, or show what that would do."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import trio

from pod.cli.compact_there import run_compact_there, socket_of
from pod.cli.failing import UsageError
from pod.cli.folder import working_folder
from pod.cli.opening import Choice, open_session
from pod.cli.options import Options
from pod.cli.output import Output
from pod.cli.receipts import compactions, receipt_lines
from pod.cli.run import watch_signals
from pod.cli.streams import kept_for_results, say, write_result
from pod.compaction.admission import Refused
from pod.compaction.cut import NoCut
from pod.compaction.ground import Ground
from pod.compaction.job import TOO_SMALL, Done, Failed, Outcome, Pruned, Skipped
from pod.compaction.plan import Plan
from pod.compaction.settings import BY_CALLS
from pod.ending import Stop, verdict_of_stop
from pod.entries import AnyEntry, Mode
from pod.exits import Exit
from pod.load_manifest import Loaded, load
from pod.log import read_log
from pod.open_model import model_of
from pod.pod import Pod, Stopped
from pod.session import Session
from pod.setup import assemble, init_event, open_pod
from pod.store import Store
from tools.text import clean, counted, one_line
from worker.client import OpenClient
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
from worker.policy import Script
from worker.scripted import ScriptedClient


def run_compact(
    options: Options,
    *,
    instructions: str,
    mode: Mode | None,
    is_dry: bool,
    at: str | None = None,
) -> int:
    """Compact the session *options* name; return the exit code.

    A Pod that runs and has it open is asked to. *at* is an entry to look from,
    for a dry run alone. Raises UsageError.
    """
    if at is not None and not is_dry:
        raise UsageError(
            "--at needs --dry-run: a compaction stands where the session does; put it"
            " there first"
        )
    cwd = working_folder(options.cd)
    loaded = load(options.manifest, options.settings, cwd)
    if not is_dry and options.resume is not None:
        log = Store(loaded.session_dir).find(options.resume)
        if socket := socket_of(log):
            return run_compact_there(
                socket, log, options, instructions=instructions, mode=mode
            )
    return trio.run(
        compact_loaded, loaded, cwd, options, instructions, mode, is_dry, None, at
    )


async def compact_loaded(
    loaded: Loaded,
    cwd: Path,
    options: Options,
    instructions: str,
    mode: Mode | None,
    is_dry: bool,
    open_client: OpenClient | None = None,
    at: str | None = None,
) -> int:
    """Open the session, compact, and close; *open_client* in place of the manifest's."""
    if mode == "remote" and loaded.manifest.compaction.remote_endpoint is None:
        raise UsageError(
            "--mode remote needs a server of yours: -c compaction.remote_endpoint=URL"
        )
    if is_dry:  # nobody is asked: no key is needed, either
        open_client = partial(ScriptedClient, Script([]), model_of(loaded.manifest))
    parts = assemble(loaded, cwd, open_client, commands=False)
    choice = Choice(
        resume=options.resume,
        refresh_prompt=options.refresh_prompt,
        look=is_dry,
        at=at,
    )
    with kept_for_results() as stdout:
        output = Output(options, stdout)
        with open_session(
            choice, parts, on_entry=output.entry, warn=output.warn
        ) as session:
            async with parts.opened(session) as opened:
                agent = open_pod(
                    parts, opened, session, tell=output.live, settled=output.settled
                )
                if is_dry:
                    plan = await agent.plan(instructions=instructions, mode=mode)
                    return _give_plan(stdout, plan)
                output.begin(session.id, init_event(parts, session, opened.setup))
                with output.shown():
                    outcome = await _compacted(agent, instructions, mode)
            return _give_outcome(stdout, outcome, session, is_told=not options.quiet)


async def _compacted(
    agent: Pod, instructions: str, mode: Mode | None
) -> Outcome | Stop:
    """Compact, unless a signal stops it: then which one."""
    outcome: Outcome | Stop
    async with trio.open_nursery() as nursery:
        await nursery.start(watch_signals, agent)
        try:
            outcome = await agent.compact(instructions=instructions, mode=mode)
        except Stopped as stopped:
            outcome = stopped.why
            if isinstance(stopped.ended, Done):  # it came too late
                outcome = stopped.ended
        nursery.cancel_scope.cancel()
    return outcome


def _give_outcome(
    stdout: int, outcome: Outcome | Stop, session: Session, *, is_told: bool
) -> int:
    """Print what came of it; *is_told*: why nothing was begun stands there already."""
    match outcome:
        case Done(entry):
            told = compactions(_entries(session))
            one = told[entry.compaction_id]
            lines = receipt_lines(one, of=len(told), with_summary=False)
            text = "\n".join(lines)
            look = f"pod session show {session.id} --compaction {one.number}"
            is_given = write_result(stdout, f"{text}\nsummary    {look}\n")
            return Exit.DONE if is_given else Exit.FAILED
        case Pruned(saved):
            write_result(stdout, f"{saved:,} tokens saved by leaving out tool output\n")
            return Exit.DONE
        case Skipped(reason, message):
            if not is_told:
                say(f"pod: {message}")
            return Exit.BLOCKED if reason == "hook" else Exit.CONTEXT
        case Failed(entry):
            say(f"pod: {entry.message}")
            return Exit.CONTEXT if entry.code in TOO_SMALL else Exit.FAILED
        case str():
            say("pod: stopped; the history is as it was")
            return verdict_of_stop(outcome).exit


def _entries(session: Session) -> Sequence[AnyEntry]:
    """Return all entries of the log, those of other branches too."""
    if session.path is None:
        return session.path_entries()
    return read_log(session.path).entries


def _give_plan(stdout: int, plan: Plan | NoCut | Refused) -> int:
    if not isinstance(plan, Plan):
        say(f"pod: {plan.message}")
        return Exit.CONTEXT
    text = "\n".join(plan_lines(plan))
    return Exit.DONE if write_result(stdout, f"{text}\n") else Exit.FAILED


def plan_lines(plan: Plan) -> Iterator[str]:
    """Give what a compaction would begin with, the first message or summary last."""
    start, budgets = plan.start, plan.budgets
    cut = start.cut
    yield "dry run: no model was asked, nothing was written"
    yield f"mode       {plan.mode}"
    yield f"now        {plan.tokens:,} tokens, {plan.overhead:,} of them system prompt and tools"
    gone = counted(cut.index, "item")
    yield f"summarised {gone}, {cut.summarised_tokens:,} tokens"
    if prefix := len(start.turn_prefix):
        yield (
            f"split turn {prefix} of them, {plan.turn_prefix_tokens:,} tokens, begin the"
            " turn that is kept in part"
        )
    kept = counted(len(start.items) - cut.index, "item")
    yield f"kept       {kept}, {cut.kept_tokens:,} tokens"
    yield f"first kept {_first_kept(start)}"
    if cut.clips:
        yield f"clipped    {len(cut.clips)} of the kept items, too large to be kept whole"
    if lost := len(cut.dropped_reasoning):
        yield f"left out   {lost} pieces of reasoning in the loop that is cut"
    told = counted(len(start.directives), "message")
    yield f"directives {told}, {start.directive_tokens:,} tokens"
    if plan.mode not in BY_CALLS:
        yield f"references {counted(len(plan.files), 'file')}"
        yield from (
            f"           {one_line(f.path)}  {one_line(f.use)}" for f in plan.files
        )
    limit = "" if plan.low_water is None else f"; it has to be under {plan.low_water:,}"
    yield f"afterwards at most about {plan.most_after:,} tokens{limit}"
    summary = f"summary {budgets.summary_target:,}, at most {budgets.summary_cap:,}"
    yield f"budgets    {summary}{_more_budgets(plan)}"
    if plan.summary:
        yield "the summary would be:"
        yield ""
        yield clean(plan.summary).text
    else:
        yield f"input      {plan.input_tokens:,} tokens; it would begin with this message:"
        yield ""
        yield clean(plan.input).text


def _more_budgets(plan: Plan) -> str:
    if plan.mode != "worker":
        return ""
    budgets = plan.budgets
    return (
        f"; marks {budgets.auto_read:,}; input {budgets.max_input_tokens:,};"
        f" {budgets.max_requests} requests, {budgets.seconds:g} s"
    )


def _first_kept(start: Ground) -> str:
    """Return the first kept entry and who speaks in it."""
    if start.cut.index >= len(start.items):
        return "none"
    role = role_of(start.items[start.cut.index])
    return f"{start.window.shown[start.cut.index].entry} ({role})"


def role_of(item: Item) -> str:
    """Return who speaks in *item*: user, assistant, tool or system."""
    match item:
        case UserText():
            return "user"
        case AssistantText() | Reasoning() | ToolCall() | Opaque():
            return "assistant"
        case ToolResult():
            return "tool"
        case SystemText():
            return "system"
