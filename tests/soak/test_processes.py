"""Real kills of real processes; the seed is another one each time."""

from random import SystemRandom

import pytest

from tests.soak.processes import ProcessFindings, kill_processes


def killed(kills: int) -> ProcessFindings:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  shown when it fails
    return kill_processes(kills, seed)


@pytest.mark.timeout(600)
def test_thirty_kills_lose_nothing_that_was_acknowledged() -> None:
    found = killed(30)

    assert found.wrong == []
    assert found.kills >= 30
    assert min(found.acknowledged, found.compactions) > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_kills_lose_nothing_that_was_acknowledged() -> None:
    found = killed(200)

    assert found.wrong == []
    assert found.kills >= 200
    assert min(found.acknowledged, found.compactions, found.navigations) > 0
