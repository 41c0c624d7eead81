"""Words for an exception that nobody expected, whatever it is."""

from tools.text import clean

LONGEST = 2_000
"""Characters of its message that are looked at."""


def crash_text(error: BaseException) -> str:
    """Return the error's kind and message, safe to log and to show."""
    error = innermost(error)
    try:
        said = str(error)[:LONGEST]
    except Exception:  # noqa: BLE001  its own __str__ is part of the crash
        said = "(its message cannot be shown)"
    return clean(f"{type(error).__qualname__}: {said}").text


def crash_place(error: BaseException) -> str:
    """Return where it was raised, as ``file:line in function``; "" where unknown."""
    trace = innermost(error).__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return clean(f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}").text


def innermost(error: BaseException) -> BaseException:
    """Unpack a group that holds a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
