"""A session as an ATIF trajectory (Agent Trajectory Interchange Format, v1.7).

The path to the leaf: a step for each message that the model was told, and one
for each response with its calls, their results as its observation, and what it
used. Prompt tokens are all of the prompt's, cached ones included.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pod.codec import to_ascii
from pod.entries import (
    AnyEntry,
    BranchSummary,
    Compaction,
    CustomMessage,
    ItemEntry,
    UsageEntry,
)
from pod.exporting.source import Exported
from pod.version import VERSION
from worker.items import (
    AssistantText,
    FromModel,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

SCHEMA = "ATIF-v1.7"


class _Call(Struct):
    tool_call_id: str
    function_name: str
    arguments: Raw


class _Result(Struct):
    source_call_id: str
    content: str


class _Observation(Struct):
    results: list[_Result]


class _Metrics(Struct, omit_defaults=True):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float | UnsetType = UNSET


class _Step(Struct, omit_defaults=True, kw_only=True):
    step_id: int
    timestamp: str
    source: str
    message: str
    model_name: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[_Call] | UnsetType = UNSET
    observation: _Observation | UnsetType = UNSET
    metrics: _Metrics | UnsetType = UNSET
    extra: Raw | UnsetType = UNSET


class _Agent(Struct):
    name: str
    version: str
    model_name: str | UnsetType = UNSET


class _Total(Struct, omit_defaults=True):
    total_prompt_tokens: int = 0
    total_completion_tokens: int = 0
    total_cached_tokens: int = 0
    total_cost_usd: float | UnsetType = UNSET
    total_steps: int = 0


class _Trajectory(Struct):
    schema_version: str
    session_id: str
    agent: _Agent
    steps: list[_Step]
    final_metrics: _Total


def lines(session: Exported) -> Iterator[str]:
    """Give the document, in one piece."""
    steps = _steps(session.path)
    models = [step.model_name for step in steps if step.model_name is not UNSET]
    trajectory = _Trajectory(
        schema_version=SCHEMA,
        session_id=session.header.id,
        agent=_Agent(
            session.header.pod or "pod", VERSION, models[-1] if models else UNSET
        ),
        steps=steps,
        final_metrics=_total(steps),
    )
    yield to_ascii(msgspec.json.encode(trajectory)).decode() + "\n"


def _steps(path: Sequence[AnyEntry]) -> list[_Step]:
    usages = {e.response: e for e in path if isinstance(e, UsageEntry)}
    calls: dict[str, _Step] = {}
    steps: list[_Step] = []
    response = ""
    for entry in path:
        match entry:
            case ItemEntry(item=ToolResult() as item):
                if (step := calls.get(item.call_id)) is not None:
                    _observe(step, item)
            case ItemEntry(
                item=AssistantText() | Reasoning() | ToolCall() | Opaque() as item
            ):
                if (
                    not steps
                    or steps[-1].source != "agent"
                    or item.response != response
                ):
                    response = item.response
                    steps.append(_answer(len(steps) + 1, entry, usages.get(response)))
                _add(steps[-1], item)
                if isinstance(item, ToolCall):
                    calls[item.call_id] = steps[-1]
            case ItemEntry(item=UserText(text=text) as item):
                source = "system" if item.synthetic else "user"
                steps.append(_told(len(steps) + 1, entry, source, text))
            case ItemEntry(item=SystemText(text=text)) | CustomMessage(text=text):
                steps.append(_told(len(steps) + 1, entry, "system", text))
            case Compaction(summary=text) | BranchSummary(summary=text):
                step = _told(len(steps) + 1, entry, "system", text)
                kind = str(entry.__struct_config__.tag)
                step.extra = Raw(msgspec.json.encode({"pod": kind}))
                steps.append(step)
            case _:
                pass
    return steps


def _told(number: int, entry: AnyEntry, source: str, text: str) -> _Step:
    return _Step(step_id=number, timestamp=entry.at, source=source, message=text)


def _answer(number: int, entry: AnyEntry, used: UsageEntry | None) -> _Step:
    step = _told(number, entry, "agent", "")
    if used is not None:
        step.model_name = used.model
        if used.usage is not None:
            step.metrics = _Metrics(
                used.usage.prompt, used.usage.output, used.usage.cache_read
            )
            if used.cost_usd is not None:
                step.metrics.cost_usd = used.cost_usd
    return step


def _add(step: _Step, item: FromModel) -> None:
    match item:
        case AssistantText(text=text):
            step.message = f"{step.message}\n{text}" if step.message else text
        case Reasoning(text=text, model=model):
            before = "" if step.reasoning_content is UNSET else step.reasoning_content
            if text:
                step.reasoning_content = f"{before}\n{text}" if before else text
            if step.model_name is UNSET:
                step.model_name = model
        case ToolCall():
            if step.tool_calls is UNSET:
                step.tool_calls = []
            arguments = _object(item.arguments)
            step.tool_calls.append(_Call(item.call_id, item.name, arguments))
        case Opaque():
            pass


def _observe(step: _Step, result: ToolResult) -> None:
    if step.observation is UNSET:
        step.observation = _Observation([])
    text = result.summary if result.content is None else result.content
    step.observation.results.append(_Result(result.call_id, text))


def _object(arguments: str) -> Raw:
    try:
        msgspec.json.decode(arguments, type=dict[str, Raw])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Raw(msgspec.json.encode({"input": arguments}))
    return Raw(arguments.encode())


def _total(steps: Sequence[_Step]) -> _Total:
    total = _Total(total_steps=len(steps))
    costs: list[float] = []
    for step in steps:
        if step.metrics is UNSET:
            continue
        total.total_prompt_tokens += step.metrics.prompt_tokens
        total.total_completion_tokens += step.metrics.completion_tokens
        total.total_cached_tokens += step.metrics.cached_tokens
        if step.metrics.cost_usd is not UNSET:
            costs.append(step.metrics.cost_usd)
    if costs:
        total.total_cost_usd = sum(costs)
    return total
