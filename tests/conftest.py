"""What holds for all tests."""

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from pod import events
from tests.events_check import Checker
from tests.secret import KEY, VARIABLE, leaks

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


os.environ[VARIABLE] = KEY


@pytest.fixture(scope="session", autouse=True)
def _key_is_in_no_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail in the end if a log, an export or any other file of the tests has the key."""
    yield
    assert list(leaks(tmp_path_factory.getbasetemp())) == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Fail a test that printed the key."""
    report = yield
    if any(KEY in text for _, text in report.sections):
        report.outcome = "failed"
        report.longrepr = "the key of the tests was printed"
    return report
