"""What happens after a compaction: one table for every reason (design.md §6.1)."""

from typing import Literal

from msgspec import Struct

from pod.entries import Reason

Then = Literal["go_on", "end_run", "deliver", "continue", "wait"]
"""What comes next.

go_on: the run that waits for the compaction goes on where it stands, and nothing
is said in the user's place. end_run: it cannot, and ends. deliver: input that
waits begins the next run. continue: a run begins with the synthetic message
``continue``. wait: nothing, until somebody asks for something.
"""


class Compacted(Struct, frozen=True):
    """A compaction that is over, and what surrounds it.

    *made_room* tells that the context became smaller; it did not where the
    compaction failed, was aborted, or had nothing to do. *in_run*: a run waits
    for it. *stays*: the process does not end with the run. *has_input*: input
    waits. *has_continued*: a ``continue`` was said already since the user's last
    input. *is_fenced*: somebody interrupted everything meanwhile.
    """

    reason: Reason
    made_room: bool
    in_run: bool
    stays: bool = True
    has_input: bool = False
    auto_continue: bool = True
    has_continued: bool = False
    is_fenced: bool = False


def after(compacted: Compacted) -> Then:
    """Say what happens after a compaction."""
    if compacted.is_fenced:  # nothing new begins behind an interrupt
        return "end_run" if compacted.in_run else "wait"
    match compacted.reason:
        case "mid_turn" | "overflow":
            return "go_on" if compacted.made_room else "end_run"
        case "manual" | "model_switch":
            return _go_on_or_deliver(compacted)
        case "post_run":
            is_asked = compacted.auto_continue and not compacted.has_continued
            then = _go_on_or_deliver(compacted)
            if then == "wait" and compacted.stays and compacted.made_room and is_asked:
                return "continue"
            return then


def _go_on_or_deliver(compacted: Compacted) -> Then:
    """What the compaction came in between goes on, whatever became of it."""
    if compacted.in_run:
        return "go_on"
    return "deliver" if compacted.stays and compacted.has_input else "wait"
