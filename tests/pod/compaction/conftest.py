from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pod.compaction.pods import FillingPod, Make


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[FillingPod] = []

    def make_one(**options: object) -> FillingPod:
        for old in made:
            old.close()
        made.clear()
        one = FillingPod(tmp_path / "s.jsonl", **options)  # type: ignore[arg-type]  # passed through
        made.append(one)
        return one

    yield make_one
    for one in made:
        one.close()
