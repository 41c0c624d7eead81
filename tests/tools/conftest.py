from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.processes import bury
from tools.scope import Scope


@pytest.fixture(autouse=True)
def no_zombies() -> None:
    """Begin without those that other tests have left."""
    bury()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the workspace of `workspace`."""
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def workspace(folder: Path) -> Iterator[Scope]:
    """Give a scope that may read and write *folder*, its cwd, and nothing else."""
    scope = Scope([], [folder], folder)
    yield scope
    scope.close()
