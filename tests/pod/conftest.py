"""What several tests share: a short folder for sockets, and imported sessions."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pod.importing.importer import Imported
from tests.corpus import corpus
from tests.pod.importing.imports import taken

Corpus = Callable[[str], Imported | str]


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder of mode 0700 whose path is short enough for a socket's."""
    folder = Path(tempfile.mkdtemp(prefix="pod-t-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return what imports a corpus file, or says why it is refused; each file once."""
    folder = tmp_path_factory.mktemp("imported")
    found: dict[str, Imported | str] = {}

    def once(name: str) -> Imported | str:
        if name not in found:
            found[name] = taken(corpus(name), folder)
        return found[name]

    return once
