import pytest
import trio

from worker.ask import beside


async def test_work_and_what_runs_beside_it_are_both_waited_for() -> None:
    ready = trio.Event()
    done: list[str] = []

    async def work() -> str:
        await ready.wait()
        return "answer"

    async def other() -> None:
        ready.set()
        await trio.lowlevel.checkpoint()
        done.append("other")

    assert await beside(work, other) == "answer"
    assert done == ["other"]


async def test_a_failure_of_the_work_is_raised_as_it_is() -> None:
    async def work() -> str:
        await trio.lowlevel.checkpoint()
        raise LookupError("no answer")

    with pytest.raises(LookupError, match="no answer"):
        await beside(work, trio.lowlevel.checkpoint)


async def test_a_cancel_reaches_both() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await beside(trio.sleep_forever, trio.sleep_forever)

    assert scope.cancelled_caught
