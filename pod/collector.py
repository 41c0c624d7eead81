"""The garbage collector, kept out of the way of start and end.

What a start loads stays until the end. Looking for garbage in it takes a tenth
of the time to the first request, and as much again at the exit; with the SDK
more (`python -m tests.benchmarks startup`).
"""

import gc


def pause() -> None:
    """Collect nothing while the program loads."""
    gc.disable()


def resume() -> None:
    """Collect again, but never look at what is there by now."""
    gc.freeze()
    gc.enable()


def skip_last() -> None:
    """Leave out the collection at the interpreter's end."""
    gc.freeze()
