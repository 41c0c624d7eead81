"""The real inputs beside the project; a test that needs them skips without."""

from pathlib import Path

import pytest

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"


def corpus(name: str) -> Path:
    """Return the path of a corpus file or folder, or skip the test."""
    path = CORPUS / name
    if not path.exists():
        pytest.skip(f"no corpus beside the project: {path} does not exist")
    return path
