"""What providers write when a prompt does not fit, and the figures in it.

Every server words it differently, so this reads texts. A text is folded
first: lower case, one blank for any run of white space, no backslashes (an
error is often JSON inside a string inside JSON), no commas inside numbers.
"""

import re
from typing import Literal

from msgspec import Struct

from worker.client import Failure, Response
from worker.items import AssistantText

LONGEST_TEXT = 16_384
"""Characters of an error text that are looked at."""

SILENT_SHARE = 0.99
"""An empty answer to a prompt this close to the window was no answer: some
servers cut the prompt to fit and report the window as used up (MiMo)."""

LEAST_WINDOW = 256
"""Tokens. A smaller figure in an error text is no window: this is the smallest one
that was ever seen in an error (llama.cpp, started with too little)."""

EMPTY_413 = "413 status code (no body)"


class Overflow(Struct, frozen=True):
    """What an error text says about sizes, in tokens; None where it is silent."""

    kind: Literal["overflow", "output_too_large", "payload_too_large"]
    prompt_tokens: int | None = None
    window_tokens: int | None = None
    output_limit: int | None = None


def fold(text: str) -> str:
    """Bring an error text into the form that the patterns here expect."""
    text = " ".join(text[:LONGEST_TEXT].replace("\\n", " ").replace("\\", "").split())
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text.lower())


_LIMIT_WORDS = r"context (?:window|length|size)"

_OVERFLOW = tuple(
    re.compile(pattern)
    for pattern in (
        # Anthropic; Ollama: "prompt too long; exceeded max context length"
        r"\bprompt (?:is )?too long\b",
        r"\brequest size exceeds model context window\b",
        # Bedrock
        r"\binput is too long for requested model\b",
        r"\binput tokens exceeded\b",
        r"\bmalformed input request: expected maxlength: \d+, actual: \d+",
        # OpenAI, Azure, Groq, Together, vLLM and whoever copies their API
        r"\bcontext_length_exceeded\b",
        r"\bcontext length exceeded\b",
        r"\bmaximum (?:context|prompt) length (?:is|of) \d+",
        rf"\bexceeds? (?:the )?(?:model'?s? |available |max(?:imum)? )*{_LIMIT_WORDS}\b",
        r"\bexceeds? (?:the )?maximum allowed input length\b",
        rf"\bexceed(?:ed|s)? (?:max |maximum )?{_LIMIT_WORDS}\b",
        r"\breduce the length of the messages\b",
        rf"\blonger than the (?:model'?s? )?(?:{_LIMIT_WORDS}|maximum model length)\b",
        # LM Studio, llama.cpp
        r"\bgreater than the context length\b",
        r"\bcontext length of only \d+ tokens\b",
        r"\bexceed_context_size_error\b|\bcontext_exceeded\b",
        # Google, Copilot, Mistral, Kimi, Perplexity, Cohere, MiniMax, z.ai, Qwen
        r"\binput token count\b.{0,40}\bexceeds the maximum\b",
        r"\bprompt token count of \d+ exceeds the limit\b",
        r"\bmodel_max_prompt_tokens_exceeded\b",
        r"\btoo large for model with \d+ maximum context length\b",
        r"\bexceeded model token limit\b",
        r"\btoo_many_prompt_tokens\b",
        r"\btotal length of all messages is too long\b",
        r"\btoo many tokens: size limit exceeded\b",
        r"\btoken limit exceeded\b",
        r"\bcontext window exceeds limit\b",
        r"\bstatus_msg['\"]?: ?['\"]token limit\b",
        r"\bmodel_context_window_exceeded\b",
        r"\brange of input length should be \[\d+, ?\d+\]",
        # clients that look before they send
        r"\bexceed the context window limit\b",
    )
)

_OUTPUT_WITH_INPUT = re.compile(
    r"\binput length and `?max_tokens`? exceed context limit\b"
    r"|\bmax(?:_completion)?_tokens['`]? is too large\b"
)
_OUTPUT_ALONE = re.compile(
    r"\bmax_tokens: \d+ > (\d+), which is the maximum\b"
    r"|\bmaximum tokens you requested exceeds the model limit of (\d+)"
)
_PAYLOAD = re.compile(
    r"\brequest_too_large\b"
    r"|\brequest exceeds the maximum size\b"
    r"|\brequest entity too large\b|\bpayload too large\b|\bcontent too large\b"
    r"|\bimage content cannot exceed \d+ ?mb\b"
    r"|\bimage exceeds \d+ ?mb maximum\b"
)

_NO_RATE = re.compile(
    r"\brate.?limit|\btoo many requests\b|\bthrottl|\btokens per min|\brequests per min"
    r"|\bper.?minute\b|\bquota\b|\bplease wait before\b|^service unavailable:"
)

_WINDOW = tuple(
    re.compile(pattern)
    for pattern in (
        r"> (\d+) maximum\b",
        r"\bcontext limit: \d+ \+ \d+ > (\d+)",
        r"\bmaximum (?:context|prompt) length (?:is|of) \(?(\d+)",
        r"\blimit for this model is (\d+)",
        r"\bwhile limit is (\d+)",
        r"\bn_ctx\W{1,4}(\d+)",
        rf"\b{_LIMIT_WORDS} (?:of only |of |\()(\d+)",
        r"\bmaximum model length of (\d+)",
        r"\bmaximum allowed input length of (\d+)",
        r"\bexceeds the limit of (\d+)",
        r"\bwith (\d+) maximum context length\b",
        r"\bmodel token limit: (\d+)",
        r"\btokens allowed \((\d+)\)",
        r"\binput length should be \[\d+, ?(\d+)\]",
    )
)
_PROMPT = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bprompt is too long: (\d+) tokens\b",
        r"\bcontext limit: (\d+) \+",
        r"\bmessages resulted in (\d+) tokens\b",
        r"\((\d+) (?:in the messages|in your prompt|of text input)\b",
        r"\brequest (?:contains|has) (\d+) (?:input )?tokens\b",
        r"\bprompt contains (?:at least )?(\d+) (?:input )?tokens\b",
        r"\bcurrent length is (\d+)",
        r"\bn_prompt_tokens\W{1,4}(\d+)",
        r"\b(?:requested|prompt) tokens \((\d+)\)",
        r"\bkeep the first (\d+) tokens\b",
        r"\bprompt \(length (\d+)\)",
        r"\binput \((\d+) tokens\)",
        r"\bprompt token count of (\d+)",
        r"\binput token count \((\d+)\)",
        r"\(requested: (\d+)\)",
    )
)
_OVER_BY = re.compile(
    rf"\b(?:exceeded|{_LIMIT_WORDS}) by (\d+)|\bexceeds?\b.{{0,60}}\bby (\d+) tokens\b"
)
_ASKED_FOR = re.compile(r"\byou requested (?:about )?(\d+) tokens\b")
_OUTPUT = re.compile(
    r"\b(\d+) (?:in|for) the (?:completion|output)\b"
    r"|\bcontext limit: \d+ \+ (\d+)"
    r"|\brequested (\d+) output tokens\b"
    r"|\bis too large: (\d+)"
)


def is_rate_limit(text: str) -> bool:
    """Whether *text* speaks of a rate or quota: then it is no overflow.

    "Too many tokens per minute" and "request too large … on tokens per min"
    name tokens and limits, and the window is not what they mean.
    """
    return _NO_RATE.search(fold(text)) is not None


def find_overflow(status: int | None, text: str) -> Overflow | None:
    """Read an error text for a prompt, an output or a payload that is too large.

    *status* is the HTTP status, None for an error inside a stream. Rate limits
    are the caller's to rule out first.
    """
    folded = fold(text)
    if (found := _OUTPUT_ALONE.search(folded)) is not None:
        return Overflow("output_too_large", output_limit=_number(found))
    if _OUTPUT_WITH_INPUT.search(folded) or any(p.search(folded) for p in _OVERFLOW):
        return _measured(folded)
    if folded == EMPTY_413 or (status == 413 and not folded):
        return Overflow("overflow")
    if _PAYLOAD.search(folded) or status == 413:
        return Overflow("payload_too_large")
    return None


def hidden_overflow(response: Response, window: int | None) -> Failure | None:
    """Return the overflow that a response which looks whole hides, if it does.

    *window* is the model's, in tokens, None where unknown. It is one where the
    stop reason says so; where the prompt has more tokens than the window (the
    server cut it); where nothing was answered and nothing billed; and where
    nothing was answered to a prompt that fills the window. An answer that was
    cut off is none by that alone, nor is an empty one with room to spare.
    """
    if response.stop_reason == "model_context_window_exceeded":
        return _hidden("the answer was cut off where the window ends", response)
    prompt = _prompt_at_least(response)
    if window is not None and prompt is not None and prompt > window:
        why = f"it has {prompt} tokens of {window}, and was cut without a word"
        return _hidden(why, response)
    if response.stop_reason in _EMPTY_ON_PURPOSE or not _is_empty(response):
        return None
    if response.usage is None and prompt is None:
        return _hidden("nothing was answered and no usage told", response)
    is_length = response.stop_reason in {"max_tokens", "length"}
    is_full = is_length and not _output(response)
    if window is not None and prompt is not None:
        is_full = prompt >= SILENT_SHARE * window
    if is_full:
        return _hidden("nothing was answered to a full window", response)
    return None


_EMPTY_ON_PURPOSE = frozenset({"refusal", "pause_turn", "stop_sequence"})
"""Stop reasons that explain why nothing was answered."""


def window_from(failure: Failure, window: int | None) -> int | None:
    """Return the window to go on with, in tokens, after *failure*.

    *window* is what was taken for it until now: the manifest's, else the
    catalogue's (known_models.resolve), None where neither knew. The smaller
    figure wins: a provider that says less is right, and one that says more
    does not undo what a person set.
    """
    told = []
    if failure.kind in {"overflow", "output_too_large"}:
        told.append(failure.window_tokens)
    if failure.kind == "overflow" and failure.prompt_tokens is not None:
        told.append(failure.prompt_tokens - 1)  # did not fit
    known = [tokens for tokens in told if tokens is not None and tokens >= LEAST_WINDOW]
    return min([*known, *([] if window is None else [window])], default=None)


def _hidden(why: str, response: Response) -> Failure:
    # Without figures: they are the model's side of it, and teach no window.
    return Failure(
        kind="overflow",
        message=f"the prompt does not fit the model's window: {why}",
        request_id=response.request_id,
    )


def _prompt_at_least(response: Response) -> int | None:
    """Return the tokens of the last prompt; None where nothing is known."""
    if response.context_tokens is None:
        return None
    return max(response.context_tokens - _output(response), 0)


def _output(response: Response) -> int:
    return 0 if response.usage is None else response.usage.output


def _is_empty(response: Response) -> bool:
    return all(
        isinstance(item, AssistantText) and not item.text.strip()
        for item in response.items
    )


def _measured(folded: str) -> Overflow:
    window = _first(_WINDOW, folded)
    output = _number(found) if (found := _OUTPUT.search(folded)) else None
    prompt = _first(_PROMPT, folded)
    if (asked := _ASKED_FOR.search(folded)) is not None:
        # All of it but the output: the messages and whatever else was sent.
        prompt = max(prompt or 0, (_number(asked) or 0) - (output or 0))
    if (over := _OVER_BY.search(folded)) is not None and window is not None:
        prompt = window + (_number(over) or 0)
    room = None
    if prompt is not None and window is not None and 0 < prompt < window:
        room = window - prompt
    if (output and room) or _OUTPUT_WITH_INPUT.search(folded):
        return Overflow("output_too_large", prompt, window, room)
    return Overflow("overflow", prompt, window)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        if (found := pattern.search(text)) is not None:
            return _number(found)
    return None


def _number(found: re.Match[str]) -> int | None:
    digits = next((group for group in found.groups() if group), "")
    return int(digits) if 0 < len(digits) <= 15 else None
