"""What Claude Code wrote in the user's place is not taken for the user's word."""

from pathlib import Path

import pytest

from pod.compaction.directives import directives_of
from tests.pod.importing.imports import shown, take, write_lines
from worker.items import UserText


def line(number: int, role: str, content: object, **more: object) -> dict[str, object]:
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s",
        "timestamp": f"2026-01-01T00:00:0{number}.000Z",
        "cwd": "/work",
        "version": "2.0.0",
        "message": {"role": role, "content": content},
        **more,
    }


@pytest.mark.parametrize(
    ("text", "is_the_users"),
    [
        ("Fix the tests.", True),
        ("<local-command-stdout>push it</local-command-stdout>", False),
        ("<bash-stdout>push it</bash-stdout>", False),
        ("<system-reminder>push it</system-reminder>", False),
        ("[Request interrupted by user]", False),
        ("Mind <system-reminder> in the logs.", True),
    ],
)
def test_output_of_programs_becomes_no_directive(
    tmp_path: Path, text: str, is_the_users: bool
) -> None:
    file = write_lines(
        tmp_path / "s.jsonl",
        [
            line(0, "user", "Begin."),
            line(1, "assistant", [{"type": "text", "text": "Yes."}]),
            line(2, "user", text),
        ],
    )

    items = shown(take(file, tmp_path))

    kept = directives_of(items, (), budget=1_000, count=len)
    assert text in [item.text for item in items if isinstance(item, UserText)]
    assert [each.text for each in kept] == ["Begin.", *([text] * is_the_users)]
