"""A short folder for sockets: a test's own is too long for a socket's path."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder of mode 0700 whose path is short."""
    folder = Path(tempfile.mkdtemp(prefix="pod-t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)
