"""Tells a cancellation from an error."""

import trio


def is_cancel(error: BaseException) -> bool:
    """Whether *error* is a cancellation going by, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)
