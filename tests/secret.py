"""A key that no test may find anywhere, and the looking for it."""

import mmap
import os
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
                    if any(
                        data.find(secret.encode(), start, end) >= 0
                        for start, end in _written(file.fileno())
                    ):
                        yield path
        except OSError:
            continue  # gone meanwhile, or not ours to read


def _written(file: int) -> Iterator[tuple[int, int]]:
    """Yield from where to where there is anything: a hole of a terabyte takes hours."""
    end = 0
    while True:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            return
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end
