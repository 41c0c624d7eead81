"""``pod compact`` where a Pod that runs has the session: that Pod is asked."""

from functools import partial
from pathlib import Path

from pod.cli.asking import asked
from pod.cli.failing import UsageError
from pod.cli.options import Options
from pod.cli.receipts import compactions, receipt_lines
from pod.cli.streams import give, say
from pod.compaction.job import TOO_SMALL
from pod.entries import Mode
from pod.exits import Exit
from pod.log import read_log
from pod.protocol.answers import Compacted
from pod.protocol.client import connect
from pod.protocol.registry import running


def socket_of(log: Path) -> Path | None:
    """Return where the Pod listens that has the session of *log* open, if one does."""
    for entry in running():
        if entry.session == log.stem and entry.socket is not None:
            return Path(entry.socket)
    return None


def run_compact_there(
    socket: Path, log: Path, options: Options, *, instructions: str, mode: Mode | None
) -> int:
    """Have the Pod at *socket* compact; print the receipt; return the exit code.

    Raises UsageError for what that Pod cannot do.
    """
    if options.refresh_prompt:
        raise UsageError("--refresh-prompt: a Pod that runs has this session; stop it")
    if not options.quiet:
        say("pod: a Pod that runs has this session: it is asked, by its own manifest")
    return asked(partial(_compact, socket, log, instructions, mode))


async def _compact(
    socket: Path, log: Path, instructions: str, mode: Mode | None
) -> int:
    async with connect(socket) as client:
        outcome = await client.compact(instructions, mode)
    match outcome.outcome:
        case "done":
            give(_receipt(log, outcome))
            return Exit.DONE
        case "pruned":
            give(f"{outcome.message}\n")
            return Exit.DONE
        case "skipped":
            say(f"pod: {outcome.message}")
            return Exit.BLOCKED if outcome.reason == "hook" else Exit.CONTEXT
        case "failed":
            say(f"pod: {outcome.message}")
            return Exit.CONTEXT if outcome.reason in TOO_SMALL else Exit.FAILED


def _receipt(log: Path, outcome: Compacted) -> str:
    told = compactions(read_log(log).entries)
    one = told[outcome.compaction_id or ""]
    lines = receipt_lines(one, of=len(told), with_summary=False)
    look = f"pod session show {log.stem} --compaction {one.number}"
    return "\n".join([*lines, f"summary    {look}", ""])
