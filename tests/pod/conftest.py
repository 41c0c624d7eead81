"""What tests of imports and exports share."""

from collections.abc import Callable

import pytest

from pod.importing.importer import Imported
from tests.corpus import corpus
from tests.pod.importing.imports import taken

Corpus = Callable[[str], Imported | str]


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
