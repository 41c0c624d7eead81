from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.scope import Scope


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the workspace of `scope`."""
    path = tmp_path / "ws"
    path.mkdir()
    return path


@pytest.fixture
def scope(folder: Path) -> Iterator[Scope]:
    """Give a scope that may read *folder*, its cwd, and write nothing."""
    scope = Scope([folder], [], folder)
    yield scope
    scope.close()


@pytest.fixture
def files(folder: Path) -> tuple[str, ...]:
    """Make five files of 100 lines, some 500 tokens each."""
    names = tuple(f"part_{n}.py" for n in range(1, 6))
    for name in names:
        text = "".join(f"line {n} of {name}\n" for n in range(1, 101))
        (folder / name).write_text(text)
    return names
