"""Items in, one request out. Only this module and draft.py know how a history is sent."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from prompts import load
from worker import api
from worker.client import Failure, Response
from worker.content import Media, clean, tool_name
from worker.draft import Memory as Memory, Thinking, is_on, leading, native_of
from worker.items import FromModel, Item, Reasoning, SystemText, ToolCall
from worker.model import Model

NATIVE_BETA = "compact-2026-09-04"
"""What has to be asked for where the provider compacts, or gets back what it made."""

MIN_THINKING = 1024
"""Tokens; the API takes no smaller thinking budget."""


class Cache(Struct, frozen=True):
    """Whether, and for how long, the provider keeps the prompt's prefix."""

    enabled: bool = True
    ttl: Literal["5m", "1h"] = "5m"


def to_request(
    items: Sequence[Item],
    *,
    system: str,
    tools: Sequence[api.ToolSpec],
    model: Model,
    cache: Cache = Cache(),  # noqa: B008  frozen
    previous_length: int | None = None,
    media: Media = Media(),  # noqa: B008  frozen
    max_tokens: int | None = None,
    memory: Memory | None = None,
    compact: api.Compact | None = None,
    is_native: bool = True,
) -> api.Request:
    """Return the request that asks *model* to go on from *items*.

    *items* is a history without faults in which every call is answered.
    *system* is the system prompt. *previous_length* is how many of the items the
    request before this one had; None where there was none, or where its items
    do not begin these. *max_tokens* replaces the model's (clamp_max_tokens).
    *memory*, of the requests before, changes nothing but what it costs. With
    *compact* the provider is asked to compact them, and not to go on. Without
    *is_native* texts are sent also where the provider's own block stands for them.

    The same arguments give the same request, and more items at the end leave
    what was there as it was, cache marks aside. Exceptions: the oldest images
    go when there are too many; reasoning goes while thinking has to be off,
    that is where max_tokens leaves no room for it, or where it has a budget
    but the reasoning that began the open tool loop is gone.
    """
    limit = model.max_tokens if max_tokens is None else max_tokens
    wanted = _fitting(model.thinking, limit)
    if not is_native:
        items = _as_texts(items)
    draft = (memory or Memory()).draft(items, model, wanted, media)
    told = items[: leading(items)]
    has_native = any(native_of(item, model) for item in told)
    betas = model.betas
    if (has_native or compact is not None) and NATIVE_BETA not in betas:
        betas = (*betas, NATIVE_BETA)
    return api.Request(
        model=model.id,
        max_tokens=limit,
        system=_system(system, [t for t in told if not native_of(t, model)], cache),
        messages=draft.messages(cache.ttl if cache.enabled else None, previous_length),
        tools=tuple(tools) or _past_tools(items),
        thinking=draft.thinking,
        effort=model.effort,
        temperature=None if is_on(draft.thinking) else model.temperature,
        betas=betas,
        compaction=compact,
    )


def is_about_compaction(failure: Failure) -> bool:
    """Whether the provider refused its own compaction block, or the beta it needs."""
    return failure.kind == "invalid" and "compaction" in failure.message


def _as_texts(items: Sequence[Item]) -> Sequence[Item]:
    """Return *items* without blocks of the provider's that stand for texts."""
    return [
        replace(item, native=None)
        if isinstance(item, SystemText) and item.native is not None
        else item
        for item in items
    ]


def clamp_max_tokens(model: Model, prompt_tokens: int) -> int:
    """Return how many tokens to ask for behind a prompt of at most *prompt_tokens*.

    At least 1, and never so many that prompt and answer exceed the window.
    """
    if model.window is None:
        return model.max_tokens
    return max(1, min(model.max_tokens, model.window - prompt_tokens))


def items_of(
    response: Response, response_id: str, *, model: str = ""
) -> tuple[FromModel, ...]:
    """Return a response's items with *response_id* in place of the provider's.

    *model* is the id that was asked: reasoning is kept under it, since a
    provider may answer in the name of an alias's snapshot. Drops nothing.
    """
    return tuple(
        replace(item, response=response_id, model=model or item.model)
        if isinstance(item, Reasoning)
        else replace(item, response=response_id)
        for item in response.items
    )


def _system(prompt: str, leading: Sequence[Item], cache: Cache) -> tuple[api.Text, ...]:
    """Return the prompt and the leading system items, each with a mark behind it."""
    parts = [[clean(prompt)], [clean(text) for text in _texts(leading)]]
    blocks: list[api.Text] = []
    for part in parts:
        blocks += [api.Text(text) for text in part if text.strip()]
        if blocks and cache.enabled:
            blocks[-1] = api.Text(blocks[-1].text, api.CacheControl(cache.ttl))
    return tuple(blocks)


def _texts(items: Sequence[Item]) -> Iterator[str]:
    return (item.text for item in items if isinstance(item, SystemText))


def _past_tools(items: Sequence[Item]) -> tuple[api.ToolSpec, ...]:
    """Name the tools that were called, for a request that has none any more.

    The API wants tools defined wherever there are calls in the history.
    """
    calls = (item for item in items if isinstance(item, ToolCall))
    names = dict.fromkeys(tool_name(call.name) for call in calls)
    gone = load("tool_gone")
    return tuple(api.ToolSpec(name, gone, Raw(b'{"type":"object"}')) for name in names)


def _fitting(thinking: Thinking, max_tokens: int) -> Thinking:
    """Return *thinking* with a budget below *max_tokens*, off where none fits."""
    if not isinstance(thinking, int) or thinking < max_tokens:
        return thinking
    return max(MIN_THINKING, max_tokens // 2) if max_tokens > MIN_THINKING else "off"
