"""What the API refuses, by value: a request in, the first thing wrong out.

Wordings are the API's own, taken from error bodies people published. Where it
is known to be laxer, a rule says so: a request that passes here passes there.
(Recorded requests that it answered were held against these rules.) One rule of
old is missing because the API dropped it: neighbours of one role are no error
any more, it merges them.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from worker.loopback import (
    rules_blocks,
    rules_compaction,
    rules_media,
    rules_thinking,
    rules_tools,
)
from worker.loopback.body import (
    Body,
    Compaction,
    Message,
    Prompt,
    ServerToolUse,
    Text,
    ToolAddition,
)
from worker.loopback.refusal import Refusal

# The API's limit for the body of a request.
MAX_BODY_BYTES = 32 * 1024 * 1024


class Served(Struct, frozen=True):
    """A model the server offers, and what it takes. Figures in tokens."""

    id: str
    window: int = 200_000
    max_output: int = 64_000
    system_messages: bool = True
    prefill: bool = False


def check_headers(headers: dict[str, str], api_key: str) -> Refusal | None:
    """Check who asks and which version of the API; names are lower case."""
    key = headers.get("x-api-key")
    bearer = headers.get("authorization", "")
    if key is None and not bearer:
        return Refusal(401, "x-api-key header is required")
    if key is None and bearer != f"Bearer {api_key}":
        return Refusal(401, "Invalid bearer token")
    if key is not None and key != api_key:
        return Refusal(401, "invalid x-api-key")
    if not headers.get("anthropic-version"):
        return Refusal(400, "anthropic-version: header is required")
    return None


def check_betas(body: Body, headers: dict[str, str]) -> Refusal | None:
    """Refuse what has to be asked for by the beta header, and is not."""
    betas = headers.get("anthropic-beta", "").split(",")
    if rules_compaction.needs_beta(body) and rules_compaction.BETA not in betas:
        return Refusal(400, "compaction: Extra inputs are not permitted")
    return None


def too_large() -> Refusal:
    """Refuse a body of more than MAX_BODY_BYTES."""
    return Refusal(413, "Request exceeds the maximum size")


def unknown_model(model: str) -> Refusal:
    """Refuse a model that is not served."""
    return Refusal(404, f"model: {model}")


def check_prompt(prompt: Prompt, model: Served, key: bytes) -> Refusal | None:
    """Return the first thing the API would refuse about a prompt, or None."""
    return next(_prompt_errors(prompt, model, key), None)


def check_body(body: Body, model: Served, key: bytes, tokens: int) -> Refusal | None:
    """Return the first thing the API would refuse about a request, or None.

    *tokens* is what its prompt counts.
    """
    return next(_body_errors(body, model, key, tokens), None)


def _prompt_errors(prompt: Prompt, model: Served, key: bytes) -> Iterator[Refusal]:
    for rule in _RULES:
        yield from (Refusal(400, text) for text in rule(prompt))
    yield from (Refusal(400, text) for text in _system_messages(prompt, model))
    yield from (Refusal(400, text) for text in _prefill(prompt, model))
    yield from (Refusal(400, text) for text in rules_thinking.signatures(prompt, key))
    yield from (Refusal(400, text) for text in rules_compaction.blocks(prompt, key))


def _body_errors(
    body: Body, model: Served, key: bytes, tokens: int
) -> Iterator[Refusal]:
    yield from (Refusal(400, text) for text in _parameters(body, model))
    yield from (Refusal(400, text) for text in rules_thinking.parameters(body))
    yield from (Refusal(400, text) for text in rules_compaction.request(body))
    yield from _prompt_errors(body, model, key)
    yield from _window(body, model, tokens)


def _parameters(body: Body, model: Served) -> Iterator[str]:
    if body.max_tokens < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    if body.max_tokens > model.max_output:
        yield (
            f"max_tokens: {body.max_tokens} > {model.max_output}, which is the "
            f"maximum allowed number of output tokens for {model.id}"
        )
    if body.temperature is not None and not 0 <= body.temperature <= 1:
        yield "temperature: range: 0..1"


def _order(prompt: Prompt) -> Iterator[str]:
    """There is a message, and a user's comes first (the API has given that up)."""
    if not prompt.messages:
        yield "messages: at least one message is required"
    elif prompt.messages[0].role == "assistant" and not (
        prompt.messages[0].blocks
        and isinstance(prompt.messages[0].blocks[0], Compaction)
    ):
        yield 'messages: first message must use the "user" role'


def _system_messages(prompt: Prompt, model: Served) -> Iterator[str]:
    messages = prompt.messages
    places = [i for i, m in enumerate(messages) if m.role == "system"]
    if places and not model.system_messages:
        yield (
            'messages: Unexpected role "system". The Messages API accepts a top-level '
            '`system` parameter, not "system" as an input message role.'
        )
    for i in places:
        kinds = Text | ToolAddition
        if not all(isinstance(block, kinds) for block in messages[i].blocks):
            yield f"messages.{i}: role 'system' supports text content only"
        if i == 0 or not _takes_system_behind(messages[i - 1]):
            yield (
                f"messages.{i}: role 'system' must follow a 'user' message or an "
                "'assistant' message ending in a server tool result"
            )
        if i + 1 < len(messages) and messages[i + 1].role != "assistant":
            yield (
                f"messages.{i}: role 'system' must precede an 'assistant' message or "
                "end the array"
            )


def _takes_system_behind(message: Message) -> bool:
    return message.role == "user" or _ends_in_server_tool(message)


def _ends_in_server_tool(message: Message) -> bool:
    blocks = message.blocks
    return bool(blocks) and (
        isinstance(blocks[-1], ServerToolUse)
        or type(blocks[-1]).__name__.endswith("Result")
    )


def _prefill(prompt: Prompt, model: Served) -> Iterator[str]:
    last = prompt.messages[-1]
    if last.role != "assistant" or _ends_in_server_tool(last):
        return
    if not model.prefill:
        yield (
            "This model does not support assistant message prefill. The conversation "
            "must end with a user message."
        )
    final = last.blocks[-1] if last.blocks else None
    if isinstance(final, Text) and final.text != final.text.rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _window(body: Body, model: Served, tokens: int) -> Iterator[Refusal]:
    """The prompt fits, and the answer beside it.

    Newer models take the second case and stop with
    ``model_context_window_exceeded``; refusing it is the stricter half.
    """
    window = model.window
    if tokens > window:
        yield Refusal(
            400,
            f"prompt is too long: {tokens} tokens > {window} maximum",
        )
    elif tokens + body.max_tokens > window:
        yield Refusal(
            400,
            "input length and `max_tokens` exceed context limit: "
            f"{tokens} + {body.max_tokens} > {window}, decrease input length or "
            "`max_tokens` and try again",
        )


_RULES: tuple[Callable[[Prompt], Iterator[str]], ...] = (
    _order,
    rules_blocks.roles,
    rules_blocks.contents,
    rules_blocks.cache_marks,
    rules_tools.definitions,
    rules_tools.calls,
    rules_tools.results,
    rules_media.pictures,
    rules_thinking.places,
)
