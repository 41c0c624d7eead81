"""Tells a cancellation from an error."""

import trio


def is_cancel(error: BaseException) -> bool:
    """Whether *error* is a cancellation going by, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


def parted(
    error: BaseException,
) -> tuple[BaseException | None, BaseException | None]:
    """Part *error* into what must stop the run and what is somebody's crash."""
    stops = (trio.Cancelled, KeyboardInterrupt)
    if isinstance(error, stops):
        return error, None
    if isinstance(error, BaseExceptionGroup):
        return error.split(stops)
    return None, error
