"""Items in, one request out. Only this module knows how a history is sent."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from prompts import load
from worker import api
from worker.client import Response
from worker.content import (
    Media,
    clean,
    kept_images,
    response_block,
    result_block,
    tool_name,
    user_blocks,
)
from worker.history import is_paused, is_same_model, stretches
from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.model import Model

MIN_THINKING = 1024
"""Tokens; the API takes no smaller thinking budget."""

Thinking = Literal["adaptive", "off"] | int | None


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
) -> api.Request:
    """Return the request that asks *model* to go on from *items*.

    *items* is a history without faults in which every call is answered.
    *system* is the system prompt. *previous_length* is how many of the items the
    request before this one had; None where there was none, or where its items
    do not begin these. *max_tokens* replaces the model's (clamp_max_tokens).

    The same arguments give the same request, and more items at the end leave
    what was there as it was, cache marks aside. Exceptions: the oldest images
    go when there are too many; reasoning goes while thinking has to be off,
    that is where max_tokens leaves no room for it, or where it has a budget
    but the reasoning that began the open tool loop is gone.
    """
    limit = model.max_tokens if max_tokens is None else max_tokens
    thinking = _fitting(model.thinking, limit)
    images = kept_images(items, media)
    draft = _Draft(items, model, thinking, images)
    if isinstance(thinking, int) and draft.lacks_reasoning():
        thinking = "off"
        draft = _Draft(items, model, thinking, images)
    return api.Request(
        model=model.id,
        max_tokens=limit,
        system=_system(system, items[: _leading(items)], cache),
        messages=draft.messages(cache, previous_length),
        tools=tuple(tools) or _past_tools(items),
        thinking=thinking,
        effort=model.effort,
        temperature=None if _is_on(thinking) else model.temperature,
        betas=model.betas,
    )


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


class _Message(Struct):
    """A message being put together: each block with the index of its item."""

    role: Literal["user", "assistant", "system"]
    blocks: list[tuple[int, api.Block]]


class _Draft:
    """The messages of one request while they are put together."""

    def __init__(
        self,
        items: Sequence[Item],
        model: Model,
        thinking: Thinking,
        images: dict[int, frozenset[int]],
    ) -> None:
        self._items = items
        self._model = model
        self._thinking = thinking
        self._images = images
        self._has_prefill = model.prefill and not _is_on(thinking)
        self._messages: list[_Message] = []
        self._build()

    def lacks_reasoning(self) -> bool:
        """Whether the request ends inside a tool loop that starts without it."""
        start: _Message | None = None
        for message in reversed(self._messages):
            if message.role == "assistant":
                start = message
            elif message.role == "user" and not _has_results(message):
                break
        return start is not None and not isinstance(
            self._items[start.blocks[0][0]], Reasoning
        )

    def messages(
        self, cache: Cache, previous_length: int | None
    ) -> tuple[api.Message, ...]:
        """Return them with cache marks: on the end, and on the end before."""
        if cache.enabled:
            self._mark(len(self._items), cache)
            if previous_length is not None:
                self._mark(previous_length, cache)
        return tuple(
            api.Message(message.role, tuple(block for _, block in message.blocks))
            for message in self._messages
        )

    def _build(self) -> None:
        # Items between two responses; one that leaves nothing to send joins them.
        run: list[int] = []
        lead = _leading(self._items)
        for start, end in stretches(self._items):
            if end <= lead:
                continue
            if not isinstance(self._items[start], FromModel):
                run.append(start)
            elif blocks := self._response(start, end):
                self._add_run(run)
                self._add_response(blocks)
                run = []
        self._add_run(run)
        self._close()

    def _response(self, start: int, end: int) -> list[tuple[int, api.Block]]:
        """Return a response's blocks, without reasoning that led to nothing.

        The API refuses a message that ends with reasoning.
        """
        blocks: list[tuple[int, api.Block]] = []
        for index in range(start, end):
            item = self._items[index]
            if not isinstance(item, FromModel) or not self._is_sent(item):
                continue
            if block := response_block(item):
                blocks.append((index, block))
        while blocks and isinstance(self._items[blocks[-1][0]], Reasoning):
            del blocks[-1]
        return blocks

    def _is_sent(self, item: FromModel) -> bool:
        if not isinstance(item, Reasoning):
            return True
        # With thinking off the API refuses reasoning in the last response.
        return self._thinking != "off" and is_same_model(item.model, self._model.id)

    def _add_run(self, run: list[int]) -> None:
        """Add what stands between two responses, results first.

        System texts at its end become a system message of their own where the
        model takes that; the API wants a user message before it and nothing
        but the model's answer behind it.
        """
        results: list[tuple[int, api.Block]] = []
        texts: list[tuple[int, api.Block]] = []
        told: list[tuple[int, api.Block]] = []
        for index in run:
            kept = self._images.get(index, frozenset())
            match self._items[index]:
                case ToolResult() as item:
                    results.append((index, result_block(item, kept)))
                case UserText() as item:
                    if blocks := user_blocks(item, kept):
                        texts += [*told, *((index, block) for block in blocks)]
                        told = []
                case SystemText() as item:
                    told += [(index, block) for block in user_blocks(item, kept)]
                case AssistantText() | Reasoning() | ToolCall() | Opaque():
                    pass  # stretches() puts those into responses
        user = results + texts
        if not self._model.system_messages or not user:
            user, told = user + told, []
        if user:
            self._messages.append(_Message("user", user))
        if told:
            self._messages.append(_Message("system", told))

    def _add_response(self, blocks: list[tuple[int, api.Block]]) -> None:
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "assistant":
            if self._may_go_on(last):
                last.blocks += blocks
                return
            # As it was when this response was asked for.
            self._add_neutral(last.blocks[-1][0])
        elif last is None:
            self._add_neutral(-1)
        self._messages.append(_Message("assistant", blocks))

    def _close(self) -> None:
        last = self._messages[-1] if self._messages else None
        if last is None:
            self._add_neutral(-1)
        elif last.role == "assistant":
            index = last.blocks[-1][0]
            item = self._items[index]
            if not self._may_go_on(last):
                self._add_neutral(index)
            elif isinstance(item, AssistantText):
                stripped = response_block(replace(item, text=item.text.rstrip()))
                if stripped is not None:
                    last.blocks[-1] = (index, stripped)

    def _may_go_on(self, message: _Message) -> bool:
        """Whether the model may continue this message of its own.

        Any model does after a pause in its server tools.
        """
        ending = self._items[message.blocks[-1][0]]
        return self._has_prefill or is_paused([ending])

    def _add_neutral(self, index: int) -> None:
        """Add the fixed user text that the API needs and the history does not have."""
        block = api.Text(load("neutral_user"))
        self._messages.append(_Message("user", [(index, block)]))

    def _mark(self, end: int, cache: Cache) -> None:
        """Mark the last block that can bear it among those of the first *end* items."""
        for message in reversed(self._messages):
            for at in reversed(range(len(message.blocks))):
                index, block = message.blocks[at]
                if index < end and isinstance(
                    block, api.Text | api.Image | api.ToolUse | api.ToolResult
                ):
                    marked = replace(block, cache_control=api.CacheControl(cache.ttl))
                    message.blocks[at] = (index, marked)
                    return


def _leading(items: Sequence[Item]) -> int:
    """Count the system items at the start."""
    for index, item in enumerate(items):
        if not isinstance(item, SystemText):
            return index
    return len(items)


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


def _has_results(message: _Message) -> bool:
    return any(isinstance(block, api.ToolResult) for _, block in message.blocks)


def _is_on(thinking: Thinking) -> bool:
    return thinking is not None and thinking != "off"


def _fitting(thinking: Thinking, max_tokens: int) -> Thinking:
    """Return *thinking* with a budget below *max_tokens*, off where none fits."""
    if not isinstance(thinking, int) or thinking < max_tokens:
        return thinking
    return max(MIN_THINKING, max_tokens // 2) if max_tokens > MIN_THINKING else "off"
