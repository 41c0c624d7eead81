"""SWE-agent's trajectories, by what they mean."""

import json
from pathlib import Path

import pytest

from pod.entries import Custom
from pod.importing.format import NotImportable
from tests.pod.importing.imports import (
    Json,
    brief,
    entries_of,
    shown,
    take,
    wrongs,
)


def trajectory(history: list[Json], folder: Path, *, indent: int | None = None) -> Path:
    file = folder / "x.traj"
    document = {"environment": "main", "trajectory": [], "history": history, "info": {}}
    file.write_text(json.dumps(document, indent=indent))
    return file


def message(role: str, content: str, **more: object) -> Json:
    return {"role": role, "content": content, "agent": "main", **more}


def called(id: str, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"type": "function", "id": id, "function": function}


@pytest.mark.parametrize("indent", [None, 2])
def test_function_calls_are_calls(tmp_path: Path, indent: int | None) -> None:
    calls = [called("c1", "open", '{"path":"a.py"}')]
    history = [
        message("system", "You are an agent."),
        message("user", "Fix it."),
        message("assistant", "I look.", tool_calls=calls, action="open a.py"),
        message("tool", "print(1)", tool_call_ids=["c1"]),
        message("assistant", "Done."),
    ]

    done = take(trajectory(history, tmp_path, indent=indent), tmp_path)

    assert wrongs(entries_of(done)) == []
    assert [brief(item) for item in shown(done)] == [
        "user Fix it.",
        "said I look.",
        'call open {"path":"a.py"}',
        "result print(1)",
        "said Done.",
    ]
    notes = [e.json for e in entries_of(done) if isinstance(e, Custom)]
    assert notes[0] == '"You are an agent."'


def test_where_commands_are_text_what_they_gave_is_nobodys_order(
    tmp_path: Path,
) -> None:
    history = [
        message("system", "You are an agent."),
        message("user", "Look at this demonstration.", is_demo=True),
        message("user", "Fix it."),
        message("assistant", "I look.\n```\nls\n```"),
        message("user", "a.py"),
    ]

    done = take(trajectory(history, tmp_path), tmp_path)

    assert [brief(item) for item in shown(done)] == [
        "pod Look at this demonstration.",
        "user Fix it.",
        "said I look.\n```\nls\n```",
        "pod a.py",
    ]


def test_a_history_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.traj"
    file.write_text('{"history": [1, 2]}')

    with pytest.raises(NotImportable, match="no session of pi"):
        take(file, tmp_path)
