"""What is written of an imported session, step by step."""

from msgspec import Struct

from pod.importing.outline import Call, Outline
from pod.importing.records import Where


class AnswerStep(Struct, frozen=True, gc=False):
    """A response; *parent* is the number of the step before it, -1 for none.

    *call_ids* are those of its calls in the log, in order.
    """

    parent: int
    parts: tuple[Where, ...]
    call_ids: tuple[str, ...]
    key: str
    signed: bool


class ResultStep(Struct, frozen=True, gc=False):
    """The answer to a call; without *outline* the file has none."""

    parent: int
    call_id: str
    call: Call
    outline: Outline | None


class PlainStep(Struct, frozen=True, gc=False):
    """Any other record."""

    parent: int
    outline: Outline


Step = AnswerStep | ResultStep | PlainStep
