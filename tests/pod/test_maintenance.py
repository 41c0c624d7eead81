import pytest

from pod.errors import Busy
from pod.maintenance import Maintenance


def test_who_comes_second_is_refused_and_told_what_is_under_way() -> None:
    lock = Maintenance()

    with lock.doing("compaction"):
        assert lock.work == "compaction"
        with pytest.raises(Busy, match="a compaction is under way"):
            with lock.doing("navigation"):
                pass
        assert lock.work == "compaction"
    lock.refuse()


def test_it_is_free_again_after_an_error_and_each_change_is_told() -> None:
    lock = Maintenance()
    told: list[str | None] = []
    lock.changed = lambda: told.append(lock.work)

    with pytest.raises(ValueError, match="x"):
        with lock.doing("navigation"):
            raise ValueError("x")

    assert told == ["navigation", None]
