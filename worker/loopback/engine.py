"""What stands behind the server and the scripted client: judge, decide, count.

No network and no clock. One engine is one provider: its prompt cache is
shared by all who ask it.
"""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from worker.api import Request
from worker.client import Response
from worker.items import AssistantText, FromModel, Opaque, Reasoning, ToolCall
from worker.loopback import rules, signing
from worker.loopback.body import (
    Body,
    Enabled,
    Prompt,
    ToolResult,
    read_body,
    read_prompt as read_count,
)
from worker.loopback.meter import (
    PromptCache,
    Segment,
    prompt_tokens,
    segments,
    tokens_of,
)
from worker.loopback.refusal import Refused
from worker.loopback.rules import Served
from worker.policy import Policy, Reply
from worker.usage import Usage

KEY = b"loopback"
"""Signs thinking where no other key is given: the same in every process, so
that a resumed session's reasoning is still valid."""


class Admitted(Struct, frozen=True):
    """A request that broke no rule."""

    body: Body
    model: Served
    parts: list[Segment]
    digest: str


class Engine:
    """Answers requests with a policy, as strictly as the API does.

    *models* are those served; None serves every id that starts with
    ``claude-`` or ``scripted``, with *window* tokens.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        models: Sequence[Served] | None = None,
        window: int = 200_000,
        key: bytes = KEY,
    ) -> None:
        self._policy = policy
        self._models = None if models is None else {m.id: m for m in models}
        self._window = window
        self._key = key
        self._cache = PromptCache()
        self._answers = 0

    @property
    def models(self) -> list[Served]:
        """The models there are; one example where any will do."""
        if self._models is None:
            return [Served("claude-loopback", self._window)]
        return list(self._models.values())

    def model(self, name: str) -> Served:
        """Return the model of that id. Raises Refused (404)."""
        if self._models is not None and name in self._models:
            return self._models[name]
        if self._models is None and name.startswith(("claude-", "scripted")):
            return Served(name, self._window)
        raise Refused(rules.unknown_model(name))

    def admit(self, data: bytes) -> Admitted:
        """Judge a request's body. Raises Refused."""
        if len(data) > rules.MAX_BODY_BYTES:
            raise Refused(rules.too_large())
        body = read_body(data)
        model = self.model(body.model)
        parts = segments(body)
        tokens = sum(part.tokens for part in parts)
        refusal = rules.check_body(body, model, self._key, tokens)
        if refusal is not None:
            raise Refused(refusal)
        digest = hashlib.blake2b(data, digest_size=8).hexdigest()
        return Admitted(body, model, parts, digest)

    def answer(self, admitted: Admitted, request: Request) -> Response:
        """Ask the policy and make a whole response of its reply.

        *request* is what was admitted, for the policy to read. Raises
        ProviderError where the policy does.
        """
        reply = self._policy.reply(request)
        self._answers += 1
        if admitted.body.compaction is not None:
            reply = self._compacted(reply, admitted)
        message_id = f"msg_{admitted.digest}{self._answers:06}"
        items = tuple(
            self._finished(item, message_id, admitted.model.id)
            for item in _opened(reply, admitted.body)
        )
        usage = reply.usage or self._usage(admitted, items)
        return Response(
            message_id=message_id,
            model=admitted.model.id,
            items=items,
            stop_reason=reply.stop_reason,
            usage=usage,
            context_tokens=usage.total,
        )

    def _compacted(self, reply: Reply, admitted: Admitted) -> Reply:
        """Return the one block that answers a request to compact.

        It holds what the policy said, signed; where that was nothing, how many
        messages there were.
        """
        said = "".join(i.text for i in reply.items if isinstance(i, AssistantText))
        content = said or f"{len(admitted.body.messages)} messages were compacted."
        signature = signing.sign(self._key, admitted.model.id, content)
        block = {"type": "compaction", "content": content, "signature": signature}
        item = Opaque(json=msgspec.json.encode(block).decode(), response="")
        return Reply((item,), stop_reason="compaction", usage=reply.usage)

    def count(self, data: bytes) -> int:
        """Count the tokens of a prompt. Raises Refused."""
        if len(data) > rules.MAX_BODY_BYTES:
            raise Refused(rules.too_large())
        prompt = read_count(data)
        refusal = rules.check_prompt(prompt, self.model(prompt.model), self._key)
        if refusal is not None:
            raise Refused(refusal)
        return prompt_tokens(prompt)

    def _usage(self, admitted: Admitted, items: Sequence[FromModel]) -> Usage:
        prompt = self._cache.charge(admitted.model.id, admitted.parts)
        thought = sum(_size(item) for item in items if isinstance(item, Reasoning))
        said = sum(_size(item) for item in items if not isinstance(item, Reasoning))
        return prompt + Usage(output=max(1, thought + said), reasoning=thought)

    def _finished(self, item: FromModel, message_id: str, model: str) -> FromModel:
        match item:
            case Reasoning():
                return self._signed(item, message_id, model)
            case AssistantText() | ToolCall() | Opaque():
                return replace(item, response=message_id)

    def _signed(self, item: Reasoning, message_id: str, model: str) -> Reasoning:
        signature, redacted = item.signature, item.redacted
        if redacted:
            verdict = signing.check_sealed(self._key, model, redacted)
            if verdict != "valid":
                redacted = signing.seal(self._key, model, redacted)
        elif not signature:
            signature = signing.sign(self._key, model, item.text)
        return replace(
            item,
            response=message_id,
            model=model,
            signature=signature,
            redacted=redacted,
        )


def _opened(reply: Reply, body: Body) -> tuple[FromModel, ...]:
    """Begin a tool loop with thinking where a budget demands it.

    A model does so by itself; a policy that forgot would be refused with its
    next request.
    """
    calls = any(isinstance(item, ToolCall) for item in reply.items)
    if (
        not isinstance(body.thinking, Enabled)
        or not calls
        or isinstance(reply.items[0], Reasoning)
        or _is_inside_loop(body)
    ):
        return reply.items
    return (Reasoning(text="A tool will tell.", response="", model=""), *reply.items)


def _is_inside_loop(prompt: Prompt) -> bool:
    last = prompt.messages[-1]
    return any(isinstance(block, ToolResult) for block in last.blocks)


def _size(item: FromModel) -> int:
    match item:
        case AssistantText():
            return tokens_of(item.text)
        case Reasoning():
            return tokens_of(item.text or item.redacted)
        case ToolCall():
            return tokens_of(item.name + item.arguments)
        case Opaque():
            return tokens_of(item.json)
