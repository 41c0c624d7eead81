"""Real sessions: each is imported whole, or refused with one line.

What the corpus's own index counts is counted again by the import. Where the two
differ, DIFFERENCES names the kind of reason.
"""

from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.importing.format import NotImportable
from pod.importing.importer import Imported
from tests.corpus import CORPUS, corpus
from tests.pod.importing.imports import compactions, entries_of, shown, take, wrongs

IMPORTED = ("pi", "openclaw")
"""Folders of sessions/ with files of formats that are imported."""


class Features(Struct, frozen=True):
    """What the index has measured of a file."""

    entries: int = 0
    bad_lines: int = 0
    tool_calls: int = 0
    compactions: int = 0
    unanswered: int = 0
    parallel: int = 0
    thinking: int = 0
    tool_errors: int = 0
    images: int = 0


class Row(Struct, frozen=True):
    file: str = ""
    features: Features = Features()


def rows() -> list[Row]:
    index = CORPUS / "index.json"
    if not index.exists():
        return []
    found = msgspec.json.decode(index.read_bytes(), type=list[Row])
    return [row for row in found if row.file.startswith("sessions/")]


ROWS = rows()


def names(*folders: str) -> list[str]:
    return [row.file for row in ROWS if row.file.split("/")[1] in folders]


@pytest.mark.parametrize("name", [row.file for row in ROWS] or ["sessions"])
def test_every_file_is_imported_whole_or_refused_with_one_line(
    name: str, tmp_path: Path
) -> None:
    done = taken(corpus(name), tmp_path)

    if isinstance(done, str):
        assert done.strip()
        assert "\n" not in done
        assert len(done) < 300
        assert not [*tmp_path.glob("sessions/*")]
    else:
        assert wrongs(entries_of(done)) == []


def taken(file: Path, folder: Path) -> Imported | str:
    """Import a file, or return why it is refused."""
    try:
        return take(file, folder)
    except NotImportable as error:
        return str(error)


def test_pis_long_session_keeps_what_its_compactions_say(tmp_path: Path) -> None:
    done = take(corpus("sessions/pi/pi-mono_before-compaction.jsonl"), tmp_path)

    assert [one.tokens_before for one in compactions(done)] == [175_004, 185_014]
    assert len(shown(done)) > 100
