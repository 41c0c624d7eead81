"""Histories to measure with, made of this project's own source."""

from pathlib import Path

from tests.command import ROOT
from worker.items import AssistantText, Item, ToolCall, ToolResult, UserText

RESULT_BYTES = 2_400


def source_text(size: int, at: int = 0) -> str:
    """Return *size* characters of source, another piece for each *at*."""
    start = at * size % max(1, len(_SOURCE) - size)
    return _SOURCE[start : start + size]


def turn(number: int) -> list[Item]:
    """Return one turn: some text, a call, its result; about 2.7 KB as it is sent."""
    response, call = f"response_{number}", f"toolu_{number:06}"
    arguments = f'{{"path":"worker/loop.py","offset":{number}}}'
    return [
        AssistantText(f"I look at part {number} next.", response),
        ToolCall(call, "read_file", arguments, response),
        ToolResult(call, f"read part {number}", source_text(RESULT_BYTES, at=number)),
    ]


def history(turns: int) -> list[Item]:
    """Return one prompt and this many turns behind it."""
    prompt: list[Item] = [UserText("Go on and look.")]
    return prompt + [item for number in range(turns) for item in turn(number)]


def _source() -> str:
    paths: list[Path] = sorted((ROOT / "worker").glob("*.py"))
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


_SOURCE = _source()
