"""How much a compact worker may be sent in all, and what happens near the end."""

WARNED_BEFORE = 8_000
RESERVE = 4_000
"""Tokens before the cap at which it is told, and from which on only the summary
may be written (design.md §6.3). With a small cap they are a quarter and an
eighth of it."""


class InputGuard:
    """Counts a compact worker's input, each token once, when it is first sent.

    What will be sent with the next request is counted as soon as it is there:
    calls that run at the same time share what is left.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._warning_at = cap - min(WARNED_BEFORE, cap // 4)
        self._closing_at = cap - min(RESERVE, cap // 8)
        self.counted = 0
        """Tokens sent, and those that go out with the next request."""
        self._was_warned = False
        self.sent = 0
        """Tokens sent so far."""

    @property
    def is_closing(self) -> bool:
        """Whether only write_summary is let through."""
        return self.counted >= self._closing_at

    @property
    def is_over(self) -> bool:
        """Whether the next request would be over the cap."""
        return self.counted > self._cap

    @property
    def room(self) -> int:
        """Tokens a tool result may have now."""
        return max(0, self._closing_at - self.counted)

    def share(self, parts: int) -> int:
        """Return the tokens of one result, so that *parts* fit before the warning."""
        return max(0, self._warning_at - self.counted) // parts

    def admit(self, tokens: int) -> bool:
        """Count a tool result of *tokens*, or refuse it where it has no room."""
        if tokens > self.room:
            return False
        self.counted += tokens
        return True

    def add(self, tokens: int) -> None:
        """Count what is sent in any case: the task, the answers, refusals."""
        self.counted += tokens

    def send(self) -> None:
        """Take note that a request goes out, with all that was counted."""
        self.sent = self.counted

    def measured(self, context_tokens: int) -> None:
        """Take over the provider's count of what was sent and answered, if higher."""
        self.counted = max(self.counted, context_tokens)

    def warning(self) -> str | None:
        """Return, once, what the first tool result near the cap says."""
        if self._was_warned or self.counted < self._warning_at:
            return None
        self._was_warned = True
        return (
            f"Input nearly used up: about {max(0, self._cap - self.counted)} of"
            f" {self._cap} tokens are left. Call write_summary now."
        )

    def refusal(self) -> str:
        """Say why a tool was not run, and what to do."""
        return (
            f"Error: input limit ({self._cap} tokens) nearly reached. Only"
            " write_summary works now: call it with what you know."
        )

    def no_room(self, tokens: int) -> str:
        """Say why a result of *tokens* was refused, and what to do."""
        return (
            f"Error: this has {tokens} tokens, and only {self.room} may still be"
            " read. Ask for fewer lines, or call write_summary."
        )
