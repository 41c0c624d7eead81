"""Whole conversations, line by line, as they were when the page was written."""

from pathlib import Path

import pytest

from pod.protocol.reading import UnknownEvent, read_event
from tests.pod.protocol.golden import CONVERSATIONS, FOLDER, transcript


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_conversation_is_as_it_always_was(
    short: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    kept = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")

    assert (await transcript(name, short)).splitlines() == kept.splitlines()


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_client_of_today_knows_every_line_of_it(name: str) -> None:
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()

    unknown = [line for line in lines if isinstance(read_event(line), UnknownEvent)]

    assert unknown == []
