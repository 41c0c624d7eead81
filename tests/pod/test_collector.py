import gc
from collections.abc import Iterator

import pytest

from pod import collector


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    gc.enable()


def test_nothing_is_collected_until_what_stays_is_loaded() -> None:
    collector.pause()
    was_paused = not gc.isenabled()

    collector.resume()

    assert was_paused
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_garbage_that_comes_later_is_collected() -> None:
    collector.pause()
    collector.resume()
    circle: list[object] = []
    circle.append(circle)
    del circle

    assert gc.collect() >= 1
