"""What an answer used, as a stream of the Messages API tells it.

``message_start`` tells the prompt, ``message_delta`` the rest, and each may
leave fields out: the last figure told counts. With tools of its own the
provider runs the model several times for one answer and lists these runs as
``iterations``, some of which the figures beside the list leave out.
"""

from typing import Annotated

from msgspec import DecodeError, Meta, Raw, Struct, json

from worker.usage import Usage

Tokens = Annotated[int, Meta(ge=0)] | None

_MESSAGE_ITERATIONS = frozenset({"message", "fallback_message"})
"""Iterations whose prompt and output the context holds afterwards."""


class _CacheCreation(Struct, frozen=True):
    ephemeral_5m_input_tokens: Tokens = None
    ephemeral_1h_input_tokens: Tokens = None


class _OutputDetails(Struct, frozen=True):
    thinking_tokens: Tokens = None


class _ServerToolUse(Struct, frozen=True):
    web_search_requests: Tokens = None


class _Told(Struct, frozen=True):
    input_tokens: Tokens = None
    cache_read_input_tokens: Tokens = None
    cache_creation_input_tokens: Tokens = None
    cache_creation: _CacheCreation | None = None
    output_tokens: Tokens = None
    output_tokens_details: _OutputDetails | None = None
    server_tool_use: _ServerToolUse | None = None

    @property
    def writes(self) -> tuple[Tokens, Tokens]:
        """Tokens written to the cache, and those of them that stay an hour."""
        if self.cache_creation is None:
            return self.cache_creation_input_tokens, None
        short = self.cache_creation.ephemeral_5m_input_tokens
        long = self.cache_creation.ephemeral_1h_input_tokens
        if self.cache_creation_input_tokens is None and (short or long):
            return (short or 0) + (long or 0), long
        return self.cache_creation_input_tokens, long


class _Iteration(_Told, frozen=True):
    type: str = ""


class _ToldWithIterations(_Told, frozen=True):
    iterations: tuple[_Iteration, ...] | None = None


class Bill:
    """Gathers the usage figures of one stream."""

    def __init__(self) -> None:
        self._top = Usage()
        self._iterations: tuple[_Iteration, ...] = ()

    def add(self, told: Raw) -> None:
        """Take a ``usage`` object. One that cannot be read tells nothing."""
        try:
            usage = json.decode(told, type=_ToldWithIterations)
        except (DecodeError, RecursionError):
            return
        self._top = _later(self._top, usage)
        self._iterations = usage.iterations or self._iterations

    @property
    def usage(self) -> Usage | None:
        """Everything that is billed; None where nothing or only zeroes were told."""
        parts = sum((_later(Usage(), one) for one in self._iterations), Usage())
        top = self._top
        whole = Usage(
            input=max(top.input, parts.input),
            cache_read=max(top.cache_read, parts.cache_read),
            cache_write=max(top.cache_write, parts.cache_write),
            cache_write_1h=max(top.cache_write_1h, parts.cache_write_1h),
            output=max(top.output, parts.output),
            reasoning=max(top.reasoning, parts.reasoning),
            web_searches=max(top.web_searches, parts.web_searches),
        )
        return None if whole == Usage() else whole

    def context_tokens(self, *, has_server_tools: bool) -> int | None:
        """Return prompt and output of the last message iteration; None if unknown.

        Where the provider ran tools of its own and lists no iterations, its
        figures are sums over runs that each had the context in them.
        """
        if not self._iterations:
            return None if has_server_tools else self._top.total or None
        messages = [i for i in self._iterations if i.type in _MESSAGE_ITERATIONS]
        return _later(Usage(), messages[-1]).total or None if messages else None


def _later(before: Usage, told: _Told) -> Usage:
    write, write_1h = told.writes
    fresh = (told.input_tokens, told.cache_read_input_tokens, write)
    if not any(fresh):
        # No prompt has zero tokens: zeroes here are a gateway that does not know.
        fresh = (None, None, None)
    cache_write = _last(before.cache_write, fresh[2])
    details = told.output_tokens_details or _OutputDetails()
    tools = told.server_tool_use or _ServerToolUse()
    return Usage(
        input=_last(before.input, fresh[0]),
        cache_read=_last(before.cache_read, fresh[1]),
        cache_write=cache_write,
        cache_write_1h=min(cache_write, _last(before.cache_write_1h, write_1h)),
        output=_last(before.output, told.output_tokens),
        reasoning=_last(before.reasoning, details.thinking_tokens),
        web_searches=_last(before.web_searches, tools.web_search_requests),
    )


def _last(before: int, told: Tokens) -> int:
    return before if told is None else told
