"""A key that no test may find anywhere, and the looking for it."""

import mmap
from collections.abc import Iterator
from pathlib import Path

KEY = "sk-ant-test-7f3a9c-this-must-not-be-seen"
"""In the environment of every test, as a secret by which the SDK signs requests."""

VARIABLE = "ANTHROPIC_IDENTITY_TOKEN"
"""Of use to the SDK only together with others: it does not change what tests do."""


def leaks(folder: Path, secret: str = KEY) -> Iterator[Path]:
    """Yield the files below *folder* that hold *secret*."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            with path.open("rb") as file:
                if path.stat().st_size == 0:
                    continue
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    if data.find(secret.encode()) >= 0:
                        yield path
        except OSError:
            continue  # gone meanwhile, or not ours to read
