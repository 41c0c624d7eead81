"""The page on hooks says what the structs say, and its examples work."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import get_args

import msgspec
import pytest
from msgspec import Struct

from pod.hooks.answers import ANSWERS, Nothing, parse
from pod.hooks.command import ask_command
from pod.hooks.payloads import AnyPayload, HookEvent, event_of
from pod.hooks.python import ask_function
from tests.pod.hooks.samples import SAMPLES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "hooks.md").read_text("utf-8")
FENCE = re.compile(r"^```(json|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Section(Struct, frozen=True):
    """What the page has on one event."""

    told: list[str]
    answer: list[str]
    payload: AnyPayload
    said: bytes
    command: str
    python: str


def section(event: str) -> Section:
    text = PAGE.split(f"\n## {event}\n")[1].split("\n## ")[0]
    told, answer = text.split("\n| answer | |\n")
    blocks: dict[str, list[str]] = {"json": [], "sh": [], "python": []}
    for kind, block in FENCE.findall(text):
        blocks[kind].append(block)
    given, *said = blocks["json"]
    return Section(
        told=_rows(told),
        answer=_rows(answer),
        payload=msgspec.json.decode(given, type=AnyPayload),
        said="".join(said).encode() or b"{}",
        command=blocks["sh"][0],
        python=blocks["python"][0],
    )


def _rows(text: str) -> list[str]:
    """Return the names in the first cells of the tables in *text*."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_every_event_has_a_section_and_a_row() -> None:
    named = re.findall(r"^\| \[`(\w+)`\]\(#(\w+)\)", PAGE, re.MULTILINE)

    assert named == [(event, event) for event in get_args(HookEvent)]


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_section_names_every_field_of_payload_and_answer(sample: AnyPayload) -> None:
    event = event_of(sample)
    found = section(event)

    assert found.told == list(sample.__struct_fields__)
    assert sorted(found.answer) == sorted(ANSWERS[event].__struct_fields__)


@pytest.mark.parametrize("event", get_args(HookEvent))
def test_the_payload_that_is_shown_is_whole(event: HookEvent) -> None:
    found = section(event)
    given = PAGE.split(f"\n## {event}\n")[1].split("```json\n")[1].split("```")[0]

    assert event_of(found.payload) == event
    written = msgspec.json.encode(found.payload)
    assert msgspec.json.decode(written) == msgspec.json.decode(given)


@pytest.mark.parametrize("event", get_args(HookEvent))
async def test_the_examples_give_the_answer_that_is_shown(
    event: HookEvent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found, kind = section(event), ANSWERS[event]
    shown = parse(found.said, kind)
    script = tmp_path / "hook"
    script.write_text(found.command, encoding="utf-8")
    script.chmod(0o700)
    command = ask_command([str(script)], cwd=tmp_path, env=os.environ)
    function = ask_function(_function(found.python))

    assert parse(await command(found.payload), kind) == shown
    by_command = _files(tmp_path)
    assert parse(await function(found.payload), kind) == shown
    assert (shown == kind()) == (kind is Nothing)
    if kind is Nothing:  # both have written the same line down
        (line,) = by_command
        assert _files(tmp_path) == [line * 2]


def _function(source: str) -> Callable[..., object]:
    names: dict[str, object] = {}
    exec(source, names)
    made = [f for f in names.values() if isinstance(f, FunctionType)]
    return made[-1]


def _files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("*.jsonl")]


def test_no_section_is_about_an_event_that_there_is_not() -> None:
    assert len(re.findall(r"^## \w+_\w+$", PAGE, re.MULTILINE)) == len(SAMPLES)
