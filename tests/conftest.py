"""What holds for all tests."""

import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pod import events
from tests.events_check import Checker
from tests.recorded import Recorded, recording, refuse_what_is_not_recorded
from tests.recorder.sitecustomize import Recorder
from tests.secret import KEY, VARIABLE, leaks

# The machine may be busy with something else: slowness is not what is tested.
settings.register_profile(
    "pod",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("pod")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would all that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_checker = Checker()
events.checks.append(_checker)
_folder = Path(tempfile.mkdtemp(prefix="pod-test-events-"))
_recorded = Recorded(_folder)
os.environ.update(recording(_folder))
os.register_at_fork(
    # What the checker finds in a fork of ours would be gone with it.
    after_in_child=lambda: events.checks.__setitem__(0, Recorder(str(_folder)))
)
refuse_what_is_not_recorded()


@pytest.fixture(autouse=True)
def _events_fit_the_published_schema() -> Iterator[None]:
    """Fail a test that made an event line which `pod schema events` does not allow.

    In this process or in one that it started: those write theirs down.
    """
    yield
    _recorded.take(_checker)
    wrong, _checker.wrong = _checker.wrong, []
    assert wrong == []


@pytest.fixture(scope="session", autouse=True)
def _last_events_fit_it_too() -> Iterator[None]:
    """Look at what processes told that outlived the test by which they were started."""
    yield
    _recorded.take(_checker)
    assert _checker.wrong == []


def pytest_unconfigure() -> None:
    """Leave no folder behind, not even where no test was run."""
    shutil.rmtree(_folder, ignore_errors=True)


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
