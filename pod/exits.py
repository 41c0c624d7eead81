"""The exit codes of the command line, and what each one means."""

from enum import IntEnum


class Exit(IntEnum):
    """Part of the interface: scripts read them, tests hold each."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    """Wrong arguments or a bad manifest."""
    LIMIT = 3
    """A limit was reached; what there was until then is the result."""
    BLOCKED = 4
    """A hook or a permission rule that is set to stop ended the run."""
    AUTH = 5
    """Authentication or billing."""
    UNAVAILABLE = 6
    """The provider is down, or rate-limited beyond the cap."""
    CONTEXT = 7
    """The context does not fit and cannot be made smaller."""
    OUTPUT = 8
    """Reserved for structured output."""
    SIGINT = 130
    SIGTERM = 143
