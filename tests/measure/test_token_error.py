"""The measurement measures: on small logs whose right answer is known."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.corpus import CORPUS, corpus
from tests.measure.readers import read_log
from tests.measure.token_error import Answered, Compared, Outcome, measure, report
from tools.base import Image
from worker.counters import O200k
from worker.items import AssistantText, Reasoning, ToolCall, ToolResult, UserText
from worker.tokens import RESULT_ENVELOPE, factor_for

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tokens.md"
MODEL = "claude-opus-4-5-20251101"
RATIO = 1.4
TEXT = "the quick brown fox jumps over the lazy dog\n" * 100
TOKENS = O200k().count(TEXT) + RESULT_ENVELOPE


def write(path: Path, lines: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


class ClaudeCodeLog:
    """Writes a log as Claude Code does: a line per block, each with the usage."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []
        self.context = 0
        self._answers = 0

    def line(self, type: str, **fields: object) -> None:
        number = len(self.lines)
        parent = self.lines[-1]["uuid"] if self.lines else None
        line = {"type": type, "uuid": f"u{number}", "parentUuid": parent}
        self.lines.append(line | fields)

    def user(self, content: object, **fields: object) -> None:
        self.line("user", message={"role": "user", "content": content}, **fields)

    def result(self, text: str = TEXT) -> None:
        self.user([{"type": "tool_result", "tool_use_id": "t", "content": text}])

    def answer(self, prompt: int, *, output: int = 40, model: str = MODEL) -> None:
        self._answers += 1
        usage = {
            "input_tokens": 3,
            "cache_read_input_tokens": prompt - 13,
            "cache_creation_input_tokens": 10,
        }
        blocks = [
            {"type": "text", "text": "I look at the file."},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "a"}},
        ]
        for block, told in zip(blocks, (1, output), strict=True):
            self.line(
                "assistant",
                message={
                    "id": f"m{self._answers}",
                    "model": model,
                    "content": [block],
                    "usage": usage | {"output_tokens": told},
                },
            )
        self.context = prompt + output


def compared(model: str, prompt: int, measured: int, counted: int) -> Compared:
    guessed = round(counted * factor_for(MODEL))
    return Compared(model, measured, prompt, counted, guessed, guessed)


async def test_the_new_part_is_compared_with_how_much_the_prompt_grew(
    tmp_path: Path,
) -> None:
    log = ClaudeCodeLog()
    log.user("Read a.")
    log.answer(20_000)
    log.result()
    grown = round(TOKENS * RATIO)
    log.answer(log.context + grown)

    outcome = await measure([write(tmp_path / "a.jsonl", log.lines)])

    [one] = outcome.compared
    assert (one.model, one.measured, one.prompt, one.counted) == (
        "claude-opus-4-5",
        grown,
        20_040 + grown,
        TOKENS,
    )
    assert one.calibrated == pytest.approx(one.guessed, abs=1)
    assert outcome.left_out == Counter({"first request of a log": 1})
    assert [answer.measured for answer in outcome.answers] == [40, 40]


async def test_the_error_goes_down_while_the_factor_is_learned(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.user("Read all of them.")
    log.answer(20_000)
    for _ in range(40):
        log.result()
        log.answer(log.context + round(TOKENS * RATIO))

    outcome = await measure([write(tmp_path / "a.jsonl", log.lines)])

    errors = [abs(c.calibrated - c.measured) / c.measured for c in outcome.compared]
    assert len(errors) == 40
    assert errors[0] > 0.1
    assert errors[-1] < 0.01


async def test_what_cannot_be_compared_is_left_out_and_said(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.user("Read a.")
    log.answer(20_000)
    log.user("in a sidechain", isSidechain=True)
    log.result()
    log.answer(22_000, model="claude-sonnet-4-5")  # another model
    log.result()
    log.answer(24_000, output=1, model="claude-sonnet-4-5")  # compared, a placeholder
    log.result()
    log.answer(26_000, model="claude-sonnet-4-5")  # not comparable for that
    log.line("system", subtype="compact_boundary")
    log.user("This session is continued.", isCompactSummary=True)
    log.answer(9_000, model="claude-sonnet-4-5")
    log.user("back")
    log.lines[-1]["parentUuid"] = "u0"
    log.answer(9_500, model="claude-sonnet-4-5")  # from another branch
    log.result()
    log.answer(9_100, model="claude-sonnet-4-5")  # something was dropped
    path = write(tmp_path / "a.jsonl", log.lines)
    copy = write(tmp_path / "b.jsonl", log.lines)

    once = await measure([path])
    twice = await measure([path, copy])

    assert [one.prompt for one in once.compared] == [24_000]
    assert once.left_out == Counter(
        {
            "first request of a log": 1,
            "first request of another model": 1,
            "the log has a placeholder for the answer before": 1,
            "first request after a compaction": 1,
            "first request of a branch": 1,
            "the prompt shrank: something was dropped, the log does not say what": 1,
        }
    )
    assert twice.compared == once.compared
    assert twice.left_out - once.left_out == Counter(
        {"the same request in another log": 7}
    )


def test_a_log_of_pi_is_read(tmp_path: Path) -> None:
    def message(**fields: object) -> dict[str, object]:
        return {"type": "message", "message": fields}

    usage = {"input": 1, "output": 50, "cacheRead": 900, "cacheWrite": 99}
    text = [{"type": "text", "text": "hello"}]
    picture = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    thinking = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}
    call = {"type": "toolCall", "id": "t", "name": "read", "arguments": {"path": "a"}}
    answer = {"role": "assistant", "model": "m", "usage": usage, "timestamp": 7}
    lines: list[dict[str, object]] = [
        {"type": "session", "id": "s"},
        message(role="user", content=text),
        message(content=[thinking, *text, call], stopReason="toolUse", **answer),
        message(role="toolResult", content=[*text, *picture]),
        message(content=[], stopReason="aborted", **answer),
        message(content=text, stopReason="stop", **answer),
        {"type": "compaction", "summary": "s"},
        message(content=text, stopReason="stop", **answer),
    ]

    first, second, third = read_log(write(tmp_path / "pi.jsonl", lines))

    assert first.new == (UserText("hello"),)
    assert first.answer == (
        Reasoning("hm", first.id, "m", "s"),
        AssistantText("hello", first.id),
        ToolCall("t", "read", '{"path": "a"}', first.id),
    )
    assert (first.prompt, first.output, first.context) == (1_000, 50, 1_050)
    images = (Image("image/png", "AAAA"),)
    assert second.new == (ToolResult("", "", content="hello", images=images),)
    assert (second.broken, third.broken) == ("aborted", "compaction")


def test_a_log_of_codex_is_read(tmp_path: Path) -> None:
    def item(**payload: object) -> dict[str, object]:
        return {"type": "response_item", "payload": payload, "timestamp": "t"}

    def count(prompt: int, output: int) -> dict[str, object]:
        usage = {"input_tokens": prompt, "output_tokens": output}
        info = {"last_token_usage": usage}
        return {
            "type": "event_msg",
            "payload": {"type": "token_count", "info": info},
            "timestamp": f"at {prompt}",
        }

    said = [{"type": "output_text", "text": "done"}]
    lines: list[dict[str, object]] = [
        {"type": "turn_context", "payload": {"model": "gpt-5-codex"}},
        item(
            type="message", role="user", content=[{"type": "input_text", "text": "go"}]
        ),
        count(3_000, 30),
        count(3_000, 30),
        item(type="reasoning", encrypted_content="sealed"),
        item(type="function_call", name="shell", arguments="{}", call_id="c"),
        item(type="function_call_output", call_id="c", output="listed"),
        count(3_100, 20),
        item(type="message", role="assistant", content=said),
        {"type": "event_msg", "payload": {"type": "turn_aborted"}},
        item(
            type="message", role="user", content=[{"type": "input_text", "text": "on"}]
        ),
        count(3_200, 10),
    ]

    first, second, third = read_log(write(tmp_path / "codex.jsonl", lines))

    assert (first.model, first.prompt, first.output) == ("gpt-5-codex", 3_000, 30)
    assert first.new == (UserText("go"),)
    assert first.answer == (
        Reasoning("", "at 3000", "gpt-5-codex", redacted="sealed"),
        ToolCall("c", "shell", "{}", "at 3000"),
    )
    assert second.new == (ToolResult("", "", content="listed"),)
    assert second.answer == (AssistantText("done", "at 3100"),)
    assert (third.new, third.broken) == ((UserText("on"),), "aborted")


def test_the_report_has_medians_and_95th_percentiles() -> None:
    parts = [
        compared("m", 10_000, 1_000, 1_000 + off) for off in (0, *range(10, 110, 10))
    ]

    answers = [Answered("m", True, 100, 120)] * 10 + [Answered("m", False, 9, 9)]

    lines = list(report(Outcome(parts, Counter({"why": 3}), answers)))

    assert lines[2].startswith("| m | 11 | 11,000 | 5.0% / 10.0% |")
    assert "| m, with reasoning | 10 | 1,000 | 1,200 | 1.20 |" in lines
    assert not any("no reasoning" in line for line in lines)
    assert lines[-1] == "| why | 3 |"


async def test_the_page_quotes_what_the_command_prints() -> None:
    logs = corpus("sessions")
    assert logs == CORPUS / "sessions"
    page = PAGE.read_text(encoding="utf-8")

    outcome = await measure(sorted(p for p in logs.rglob("*.json*") if p.is_file()))

    assert "\n".join(report(outcome)) in page
