"""One hook: what is asked when, and what its failure means."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from pod.hooks.payloads import AnyPayload, HookEvent

TIMEOUT = 60.0
"""Seconds a hook may take, where it says nothing else."""

NAME_CHARACTERS = 80
"""A hook's name is a line; what is longer is cut."""

OnFailure = Literal["continue", "block"]
"""What a hook that failed means for what it was asked about."""

Ask = Callable[[AnyPayload], Awaitable[object]]
"""Gives a hook's answer, unparsed: see ``answers.parse``. May raise anything."""


class HookError(Exception):
    """A hook could not answer; the message says why, for a person."""


class Hook(Struct, frozen=True):
    """One hook.

    *name* is what people know it by, *timeout* is in seconds. With *tools* it
    is called for these tools alone.
    """

    event: HookEvent
    name: str
    ask: Ask
    timeout: float = TIMEOUT
    on_failure: OnFailure | None = None
    tools: tuple[str, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether its failure stops what it was asked about."""
        return self.on_failure == "block" or self.event == "pre_tool_call"

    def concerns(self, tool: str) -> bool:
        """Whether it is asked about calls of *tool*."""
        return not self.tools or tool in self.tools


AROUND_CALLS: tuple[HookEvent, ...] = ("pre_tool_call", "post_tool_call")
CAN_BLOCK: tuple[HookEvent, ...] = (
    "session_before_compact",
    "session_before_tree",
    "pre_llm_request",
    *AROUND_CALLS,
)
"""Events at which there is something left to stop."""


def on_failure_problem(event: HookEvent, on_failure: OnFailure | None) -> str | None:
    """Return why *on_failure* is not possible for *event*, None where it is."""
    if on_failure == "continue" and event == "pre_tool_call":
        return (
            "a call that its pre_tool_call hook has not judged is never run; for a"
            " hook that only takes notes, use post_tool_call"
        )
    if on_failure == "block" and event not in CAN_BLOCK:
        return f"at {event} there is nothing that could be stopped"
    return None


def tools_problem(event: HookEvent, tools: Sequence[str]) -> str | None:
    """Return why *event* cannot be about *tools* alone, None where it can."""
    if tools and event not in AROUND_CALLS:
        return f"{event} is about no tool; only {' and '.join(AROUND_CALLS)} are"
    return None
