"""A history as the messages of a request, put together item by item.

A history grows at its end. So a draft can go on from the one before it: the
messages up to the last response are taken over, the very same objects, which
validate.py and encode.py know again.
"""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Literal

from msgspec import Raw, Struct
from msgspec.structs import replace

from prompts import load
from worker import api
from worker.content import Media, kept_images, response_block, result_block, user_blocks
from worker.history import is_paused, is_same_model, stretches
from worker.items import (
    AssistantText,
    FromModel,
    Item,
    Native,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.model import Model

Thinking = Literal["adaptive", "off"] | int | None
Images = Mapping[int, frozenset[int]]
"""Which images are sent: their positions, by the index of their item."""


class _Message(Struct, frozen=True):
    """A message, and for each of its blocks the index of the item it is from."""

    sent: api.Message
    indexes: tuple[int, ...]


class Draft:
    """The messages of *items* for one model.

    *before* is a draft with the same thinking, and *same* how many of the items
    are the very ones it was made of: as far as that goes it is gone on with.
    """

    def __init__(
        self,
        items: Sequence[Item],
        model: Model,
        thinking: Thinking,
        images: Images,
        *,
        before: "Draft | None" = None,
        same: int = 0,
    ) -> None:
        self._items = items
        self._model = model
        self.thinking = thinking
        self._images = images
        self._has_prefill = model.prefill and not is_on(thinking)
        self._messages: list[_Message] = []
        self._settled: list[_Message] = []
        """The messages as they stood before the last response."""
        self._last_response = (0, 0)
        """Where that is among the items: its first, and the one behind it."""
        if before is not None and self._follows(before, same):
            self._settled = before._settled
            self._last_response = before._last_response
            self._messages = list(self._settled)
        if not self._messages:
            self._begin()
        self._build(max(self._last_response[0], leading(items)))
        self._close()

    def lacks_reasoning(self) -> bool:
        """Whether the request ends inside a tool loop that starts without it."""
        start: _Message | None = None
        for message in reversed(self._messages):
            if message.sent.role == "assistant":
                start = message
            elif message.sent.role == "user" and not _has_results(message.sent):
                break
        return start is not None and not isinstance(
            self._items[start.indexes[0]], Reasoning
        )

    def messages(
        self, ttl: Literal["5m", "1h"] | None, previous_length: int | None
    ) -> tuple[api.Message, ...]:
        """Return them with cache marks: on the end, and on the end before.

        Without *ttl* there are none.
        """
        messages = [message.sent for message in self._messages]
        if ttl is not None:
            self._mark(messages, len(self._items), ttl)
            if previous_length is not None:
                self._mark(messages, previous_length, ttl)
        return tuple(messages)

    def _follows(self, before: "Draft", same: int) -> bool:
        start, end = before._last_response
        return (
            end <= same  # or what stands before it might go on
            and before._model == self._model
            and _below(before._images, start) == _below(self._images, start)
        )

    def _begin(self) -> None:
        """Put the block that stands for what was before at the very beginning."""
        for index, item in enumerate(self._items[: leading(self._items)]):
            if (block := native_of(item, self._model)) is not None:
                raw = Raw(block.json.encode())
                self._add("assistant", [(index, api.Opaque(raw))])
                return

    def _build(self, first: int) -> None:
        # Items between two responses; one that leaves nothing to send joins them.
        run: list[int] = []
        for start, end in stretches(self._items, first):
            if not isinstance(self._items[start], FromModel):
                run.append(start)
            elif blocks := self._response(start, end):
                self._add_run(run)
                self._settled = list(self._messages)
                self._last_response = (start, end)
                self._add_response(blocks)
                run = []
        self._add_run(run)

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
        return self.thinking != "off" and is_same_model(item.model, self._model.id)

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
            self._add("user", user)
        if told:
            self._add("system", told)

    def _add_response(self, blocks: list[tuple[int, api.Block]]) -> None:
        last = self._messages[-1] if self._messages else None
        if last is not None and last.sent.role == "assistant":
            if self._may_go_on(last):
                del self._messages[-1]
                together = zip(last.indexes, last.sent.content, strict=True)
                self._add("assistant", [*together, *blocks])
                return
            # As it was when this response was asked for.
            self._add_neutral(last.indexes[-1])
        elif last is None:
            self._add_neutral(-1)
        self._add("assistant", blocks)

    def _close(self) -> None:
        last = self._messages[-1] if self._messages else None
        if last is None:
            self._add_neutral(-1)
        elif last.sent.role == "assistant":
            index = last.indexes[-1]
            item = self._items[index]
            if not self._may_go_on(last):
                self._add_neutral(index)
            elif isinstance(item, AssistantText):
                stripped = response_block(replace(item, text=item.text.rstrip()))
                if stripped is not None:
                    content = (*last.sent.content[:-1], stripped)
                    sent = replace(last.sent, content=content)
                    self._messages[-1] = _Message(sent, last.indexes)

    def _may_go_on(self, message: _Message) -> bool:
        """Whether the model may continue this message of its own.

        Any model does after a pause in its server tools, none after a block that
        stands for what was before.
        """
        ending = self._items[message.indexes[-1]]
        if isinstance(ending, SystemText):
            return False
        return self._has_prefill or is_paused([ending])

    def _add_neutral(self, index: int) -> None:
        """Add the fixed user text that the API needs and the history does not have."""
        self._add("user", [(index, api.Text(load("neutral_user")))])

    def _add(
        self,
        role: Literal["user", "assistant", "system"],
        blocks: Sequence[tuple[int, api.Block]],
    ) -> None:
        indexes, content = zip(*blocks, strict=True)
        self._messages.append(_Message(api.Message(role, content), indexes))

    def _mark(
        self, messages: list[api.Message], end: int, ttl: Literal["5m", "1h"]
    ) -> None:
        """Mark the last block that can bear it among those of the first *end* items."""
        for number in reversed(range(len(messages))):
            content = messages[number].content
            indexes = self._messages[number].indexes
            for at in reversed(range(len(content))):
                block = content[at]
                if indexes[at] < end and isinstance(
                    block, api.Text | api.Image | api.ToolUse | api.ToolResult
                ):
                    marked = replace(block, cache_control=api.CacheControl(ttl))
                    content = (*content[:at], marked, *content[at + 1 :])
                    messages[number] = replace(messages[number], content=content)
                    return


class Memory:
    """What a request leaves for the next one of the same history.

    It changes no request; it saves making again what was made before. It keeps
    what the last request was made of, and nothing older.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._pictured: list[int] = []
        self._drafts: Mapping[Thinking, Draft] = {}

    def draft(
        self, items: Sequence[Item], model: Model, thinking: Thinking, media: Media
    ) -> Draft:
        """Return the draft of *items*, for as much of *thinking* as they allow.

        A budget needs the reasoning that began the open tool loop.
        """
        same = _same(self._items, items)
        images = self._images(items, same, media)

        def made(thinking: Thinking) -> Draft:
            before = self._drafts.get(thinking)
            return Draft(items, model, thinking, images, before=before, same=same)

        draft = made(thinking)
        drafts = {thinking: draft}
        if isinstance(thinking, int) and draft.lacks_reasoning():
            drafts["off"] = draft = made("off")
        self._items, self._drafts = list(items), drafts
        return draft

    def _images(self, items: Sequence[Item], same: int, media: Media) -> Images:
        """Choose the images that are sent."""
        self._pictured = [at for at in self._pictured if at < same]
        self._pictured += [
            at for at in range(same, len(items)) if _has_images(items[at])
        ]
        chosen = kept_images([items[at] for at in self._pictured], media)
        return {self._pictured[at]: kept for at, kept in chosen.items()}


def leading(items: Sequence[Item]) -> int:
    """Count the system items at the start."""
    for index, item in enumerate(items):
        if not isinstance(item, SystemText):
            return index
    return len(items)


def native_of(item: Item, model: Model) -> Native | None:
    """Return the block that is sent to *model* in place of *item*, if there is one."""
    native = item.native if isinstance(item, SystemText) else None
    if native is None or native.provider != model.provider:
        return None
    return native if is_same_model(native.model, model.id) else None


def is_on(thinking: Thinking) -> bool:
    """Whether the model is told to reason."""
    return thinking is not None and thinking != "off"


def _same(items: Sequence[Item], others: Sequence[Item]) -> int:
    """Count the items at the start that are the very same objects."""
    if all(map(is_, items, others)):
        return min(len(items), len(others))
    pairs = enumerate(zip(items, others, strict=False))
    return next(at for at, (one, other) in pairs if one is not other)


def _below(images: Images, end: int) -> Images:
    return {at: kept for at, kept in images.items() if at < end}


def _has_images(item: Item) -> bool:
    return isinstance(item, UserText | ToolResult) and bool(item.images)


def _has_results(message: api.Message) -> bool:
    return any(isinstance(block, api.ToolResult) for block in message.content)
