"""What holds for all tests."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from pod import events
from tests.events_check import Checker

# The machine may be busy with something else: slowness is not what is tested.
settings.register_profile(
    "pod",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pod")


_checker = Checker()
events.checks.append(_checker)


@pytest.fixture(autouse=True)
def _events_fit_the_published_schema() -> Iterator[None]:
    """Fail a test that made an event line which `pod schema events` does not allow."""
    yield
    wrong, _checker.wrong = _checker.wrong, []
    assert wrong == []
