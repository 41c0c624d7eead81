"""Surveys of a folder: the real run with the real tools, and any policy."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pod.cli.options import Options
from pod.cli.output import Output
from pod.cli.run import run_parts
from pod.entries import RunEnd
from pod.load_manifest import Loaded
from pod.merge import merge
from pod.open_model import model_of
from pod.session import Session
from pod.setup import assemble
from pod.survey import Survey
from pod.survey.task import Task, prompt_for
from tests.tools.sandbox.tiers import some_mode
from worker.api import Message, Request, Text, ToolResult
from worker.items import Item, ToolCall, ToolResult as ResultItem
from worker.policy import Decide, Policy, Reply
from worker.scripted import ScriptedClient

NAMES = ("read_file", "write_file", "edit_file", "grep", "glob", "bash")


class Surveyed(Struct, frozen=True):
    """What came of a survey. *report* is "" where there is no file."""

    report: str
    end: RunEnd
    session: str
    items: Sequence[Item]

    def calls(self, name: str = "") -> list[ToolCall]:
        """Return the calls, or those of the tool *name*."""
        calls = [item for item in self.items if isinstance(item, ToolCall)]
        return [one for one in calls if name in ("", one.name)]

    @property
    def errors(self) -> list[str]:
        results = [item for item in self.items if isinstance(item, ResultItem)]
        return [result.summary for result in results if result.is_error]


async def survey(
    folder: Path,
    *,
    policy: Policy | None = None,
    task: Task | None = None,
    names: Sequence[str] = NAMES,
    resume: str | None = None,
    max_requests: int = 100,
    settings: Sequence[str] = (),
) -> Surveyed:
    """Survey *folder* into pod-report.md in it, with the tools *names*.

    *resume* is the session of a survey to go on with, *settings* are more overrides.
    """
    asked = task or Task(folder=str(folder), report="pod-report.md")
    overrides = (
        'model.provider="scripted"',
        'model.id="survey"',
        "model.context_window=1000000",
        f"limits.max_requests={max_requests}",
        f"tools.builtin={msgspec.json.encode(names).decode()}",
        f"session.dir={msgspec.json.encode(str(folder.parent / 'log')).decode()}",
        'session.durability="flush"',
        f'sandbox.mode="{some_mode()}"',
        *settings,
    )
    merged = merge(None, "", overrides)
    loaded = Loaded(merged.manifest, merged.sources, folder, None)
    client = ScriptedClient(policy or Survey(), model_of(loaded.manifest))
    parts = assemble(loaded, folder, lambda: client)
    output = _Kept(Options(resume=resume, quiet=True))
    prompt = prompt_for(asked) if resume is None else None
    await run_parts(parts, output.options, prompt, output)
    path = folder / asked.report
    report = path.read_text(encoding="utf-8") if path.exists() else ""
    return Surveyed(report, output.end, output.session, output.items)


def again(folder: Path) -> None:
    """Take the report away, so that the next survey begins anew."""
    (folder / "pod-report.md").unlink()


def forgetful(exchanges: Callable[[int], int]) -> Policy:
    """Return a survey that sees the newest exchanges alone.

    The prompt is among the system blocks, as after a compaction. *exchanges*
    says how many are left of so many.
    """
    policy = Survey()
    return Decide(lambda request: policy.reply(_cut(request, exchanges)))


def uncertain(first: int) -> Policy:
    """Return a survey for which the results of its *first* answers are lost."""
    policy = Survey()

    def decide(request: Request) -> Reply:
        later = request.messages[1 + 2 * first :]
        if not later:
            return policy.reply(request)
        lost = tuple(map(_lost, request.messages[: 1 + 2 * first]))
        return policy.reply(replace(request, messages=(*lost, *later)))

    return Decide(decide)


class _Kept(Output):
    """Keeps how a run ended in place of printing it."""

    end: RunEnd
    session: str
    items: Sequence[Item]

    def __init__(self, options: Options) -> None:
        super().__init__(options, -1)
        self.options = options

    def finish(self, end: RunEnd, session: Session) -> int:
        self.end = end
        self.session = session.id
        self.items = tuple(session.items)
        return end.exit_code


def _cut(request: Request, exchanges: Callable[[int], int]) -> Request:
    """Leave out the oldest exchanges, and the prompt before them."""
    messages = request.messages
    starts = [i for i, message in enumerate(messages) if message.role == "assistant"]
    kept = exchanges(len(starts))
    if kept >= len(starts):
        return request
    prompt = [block for block in messages[0].content if isinstance(block, Text)]
    tail = messages[starts[len(starts) - kept] :] if kept else ()
    return replace(
        request,
        system=(*request.system, *prompt),
        messages=(Message(role="user", content=(Text("Go on."),)), *tail),
    )


def _lost(message: Message) -> Message:
    content = tuple(
        ToolResult(block.tool_use_id, (Text("cancelled before it ended"),), True)
        if isinstance(block, ToolResult)
        else block
        for block in message.content
    )
    return Message(message.role, content)
