"""What is wanted of a run before its next request, and what becomes of it."""

import pytest

from pod.compaction.job import Done
from pod.errors import Busy
from pod.halts import Halts, Stopped
from tests.pod.compaction.histories import SUMMARY

EARLIER = Done(SUMMARY)
"""How a compaction of the run ended that nobody had asked for."""


async def test_a_compaction_that_did_not_begin_has_not_the_end_of_an_earlier_one() -> (
    None
):
    halts = Halts()
    wish = halts.ask("", None)

    halts.clear("interrupted", EARLIER)

    with pytest.raises(Stopped) as stopped:
        await wish.wait()
    assert (stopped.value.why, stopped.value.ended) == ("interrupted", None)
    assert not halts.is_wanted


async def test_one_compaction_can_be_asked_for_at_a_time() -> None:
    halts = Halts()
    halts.ask("", None)

    with pytest.raises(Busy, match="asked for already"):
        halts.ask("", None)

    assert halts.take_back()
    assert not halts.take_back()
    halts.ask("", None)
