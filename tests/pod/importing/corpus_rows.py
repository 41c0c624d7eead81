"""What the corpus's own index says of its sessions."""

import msgspec
from msgspec import Struct

from tests.corpus import CORPUS


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
    sidechain: int = 0


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
FOLDERS = ("pi", "claude-code", "codex", "swe-agent", "openclaw")
"""Folders of sessions/ with formats that are imported."""
MEASURED = [
    row for row in ROWS if row.features.entries and row.file.split("/")[1] in FOLDERS
]
"""Those of which the index has counts: files of JSON lines."""
