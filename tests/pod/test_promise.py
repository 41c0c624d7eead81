import pytest
import trio

from pod.promise import Promise


async def test_all_who_wait_get_the_value_and_so_does_who_comes_later() -> None:
    promise = Promise[int]()
    got: list[int] = []

    async def wait() -> None:
        got.append(await promise.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert not promise.is_kept
        promise.keep(7)
    await wait()

    assert got == [7, 7, 7]


async def test_what_was_given_first_counts() -> None:
    kept, failed = Promise[int](), Promise[int]()
    kept.keep(1)
    kept.fail(ValueError("too late"))
    failed.fail(ValueError("first"))
    failed.keep(2)

    assert await kept.wait() == 1
    with pytest.raises(ValueError, match="first"):
        await failed.wait()


async def test_nothing_is_a_value_too() -> None:
    promise = Promise[None]()
    promise.keep(None)

    assert promise.is_kept
    await promise.wait()
