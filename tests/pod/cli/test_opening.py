"""Which session a run is on, and what is left of one that was refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pod.cli import main
from pod.context import context
from pod.entries import ModelChange, PromptChange, RunEnd, RunStart
from pod.exits import Exit
from pod.log import read_log
from pod.scan import Scan
from pod.session import Session
from tests.tools.sandbox.tiers import some_bash
from worker.history import faults
from worker.items import AssistantText, ToolCall, ToolResult, UserText

MANIFEST = """
[model]
provider = "scripted"
id = "echo:2"
[tools]
builtin = ["bash"]
[session]
dir = "../sessions"
""" + some_bash()


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with a manifest that needs no network."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pod.toml").write_text(MANIFEST)
    monkeypatch.chdir(folder)
    return folder


Logs = Callable[[], list[Path]]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return lambda: sorted((tmp_path / "sessions").glob("*.jsonl"))


def read(log: Path) -> Scan:
    return read_log(log)


def kinds(log: Path) -> list[type]:
    return [type(item) for item in context(read(log).entries)]


def test_a_resumed_open_turn_goes_on_before_the_new_prompt_is_heard(logs: Logs) -> None:
    main(["run", "first", "-q", "--max-requests", "1"])
    (log,) = logs()

    code = main(["run", "second", "--resume", log.stem, "-q"])

    assert code == Exit.DONE
    assert kinds(log) == [
        UserText,  # first
        ToolCall,
        ToolResult,
        UserText,  # second, behind the result
        ToolCall,
        ToolResult,
        AssistantText,
    ]


def test_a_call_that_a_crash_left_is_answered_before_the_new_prompt(logs: Logs) -> None:
    main(["run", "first", "-q", "--max-requests", "1"])
    (log,) = logs()
    lines = log.read_bytes().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if b'"type":"tool_result"' in line)
    log.write_bytes(b"".join(lines[:cut]))

    code = main(["run", "second", "--resume", log.stem, "-q"])

    items = context(read(log).entries)
    assert code == Exit.DONE
    assert faults(items) == []
    assert [type(item) for item in items[:4]] == [
        UserText,
        ToolCall,
        ToolResult,
        UserText,
    ]
    assert isinstance(items[2], ToolResult)
    assert items[2].is_error


def test_an_open_turn_goes_on_without_a_prompt_after_a_crash(logs: Logs) -> None:
    main(["run", "first", "-q", "--max-requests", "1"])
    (log,) = logs()
    lines = log.read_bytes().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if b'"type":"tool_result"' in line)
    log.write_bytes(b"".join(lines[:cut]))

    code = main(["run", "--resume", log.stem, "-q"])

    entries = read(log).entries
    ends = [entry.reason for entry in entries if isinstance(entry, RunEnd)]
    starts = [entry.resumed for entry in entries if isinstance(entry, RunStart)]
    assert code == Exit.DONE
    assert ends == ["crashed", "done"]
    assert starts == [False, True]


def test_another_folder_is_refused_and_leaves_the_session_as_it_was(
    work: Path, logs: Logs, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    (log,) = logs()
    before = log.read_bytes()
    other = work.parent / "other"
    other.mkdir()
    (other / "pod.toml").write_text(MANIFEST)
    here = ["--cd", str(other), "-q"]

    refused = main(["run", "second", "--resume", log.stem, *here])
    also = main(["run", "second", "--resume", log.stem, "--fork", *here])

    assert (refused, also) == (Exit.USAGE, Exit.USAGE)
    assert f"works in {work}" in capfd.readouterr().err
    assert logs() == [log]
    assert log.read_bytes() == before
    assert main(["run", "x", "--resume", log.stem, "--refresh-prompt", *here]) == 0
    changes = [e for e in read(log).entries if isinstance(e, PromptChange)]
    assert len(changes) == 1
    assert str(other) in changes[0].system
    assert main(["run", "x", "--resume", log.stem, *here]) == Exit.DONE


def test_a_session_keeps_its_prompt_and_says_so(
    logs: Logs, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    (log,) = logs()
    again = ["run", "x", "--resume", log.stem, "-q", "-c", 'prompt.append="New."']

    main(again)
    kept = capfd.readouterr().err
    main([*again, "--refresh-prompt"])

    assert "keeps the system prompt it began with" in kept
    assert "keeps the system prompt" not in capfd.readouterr().err
    (change,) = [e for e in read(log).entries if isinstance(e, PromptChange)]
    assert change.system.endswith("\n\nNew.")


def test_another_model_is_an_entry_of_the_session(logs: Logs) -> None:
    main(["run", "first", "-q"])
    (log,) = logs()

    main(["run", "x", "--resume", log.stem, "-q", "--model", "echo:3"])
    main(["run", "x", "--resume", log.stem, "-q", "--model", "echo:3"])

    (change,) = [e for e in read(log).entries if isinstance(e, ModelChange)]
    assert (change.model, change.previous) == ("echo:3", "echo:2")


def test_the_stream_says_whether_a_session_goes_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    main(["run", "first", "-q", "--output-format", "stream-json"])
    first, _ = capfd.readouterr()
    main(["run", "second", "--continue", "-q", "--output-format", "stream-json"])
    second, _ = capfd.readouterr()

    assert '"resumed":false' in first.splitlines()[0]
    assert '"resumed":true' in second.splitlines()[0]


def test_a_fork_that_has_nothing_to_do_is_taken_away(logs: Logs) -> None:
    main(["run", "first", "-q"])

    code = main(["run", "--continue", "--fork", "-q"])

    assert code == Exit.USAGE
    assert len(logs()) == 1


def test_a_fork_that_is_not_kept_knows_what_was_said(
    logs: Logs, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    (log,) = logs()
    before = log.read_bytes()
    capfd.readouterr()

    code = main(["run", "x", "--continue", "--fork", "--ephemeral", "-q"])

    assert (code, capfd.readouterr().out) == (0, "Done after 2 calls.\n")
    assert logs() == [log]
    assert log.read_bytes() == before


def test_a_session_in_use_is_a_failure_that_says_by_whom(
    logs: Logs, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    (log,) = logs()

    with Session.open(log):
        code = main(["run", "x", "--resume", log.stem, "-q"])

    assert code == Exit.FAILED
    assert "is in use by" in capfd.readouterr().err


@pytest.mark.parametrize("more", [[], ["--fork"], ["--fork", "--ephemeral"]])
def test_a_damaged_session_is_not_gone_on_with(
    more: list[str], logs: Logs, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    (log,) = logs()
    lines = log.read_bytes().splitlines(keepends=True)
    lines[3] = b"\0" * 20 + b"\n"
    log.write_bytes(b"".join(lines))

    code = main(["run", "x", "--resume", log.stem, "-q", *more])

    assert code == Exit.FAILED
    assert "pod session repair" in capfd.readouterr().err
    assert logs() == [log]


BROKEN = {
    "no such function": ("def g() -> None: ...\n", "there is no function f"),
    "no such module": ("import nope_nope\n", "nope_nope"),
    "a fault": ("1 / 0\n", "ZeroDivisionError"),
    "its own exit": ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    "no hints": ('def f(x) -> None:\n    """Do."""\n', "x"),
    "no Python": ("def f(\n", "SyntaxError"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_function_that_cannot_be_had_is_told_and_leaves_no_session(
    fault: str, work: Path, logs: Logs, capfd: pytest.CaptureFixture[str]
) -> None:
    text, said = BROKEN[fault]
    (work / "mine.py").write_text(text)

    code = main(["run", "x", "-c", 'tools.python=["mine.py:f"]'])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.USAGE, "")
    assert said in err
    assert "Traceback" not in err
    assert logs() == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('tools.python=["t.py:bash"]', 'two tools are called "bash"'),
        ('permissions.read_roots=["nowhere"]', "nowhere"),
        ('permissions.write_roots=["pod.toml"]', "is a file"),
        ('model.id="echo:many"', '"echo" or "survey"'),
        ("limits.max_budget_usd=-1", "max_budget_usd"),
        ('model.base_url="ftp://x"', "base_url"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_happens(
    setting: str,
    said: str,
    work: Path,
    logs: Logs,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (work / "t.py").write_text('def bash() -> None:\n    """Do."""\n')

    code = main(["run", "x", "-c", setting])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.USAGE, "")
    assert said in err
    assert logs() == []


def test_a_budget_without_a_price_is_refused_up_front(
    logs: Logs,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "unused")
    model = ["-c", 'model.provider="anthropic"', "--model", "nobody-knows-this-1"]

    code = main(["run", "x", *model, "--max-budget-usd", "1"])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.USAGE, "")
    assert "the price of" in err
    assert "nobody-knows-this-1" in err
    assert logs() == []


@pytest.mark.parametrize("key", ['models=["%s"]', 'worker_model="%s"'])
def test_a_budget_needs_the_price_of_who_writes_summaries_too(
    key: str,
    logs: Logs,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the first compaction would end the run: its cost would not be known."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "unused")
    setting = f"compaction.{key % 'nobody-knows-this-1'}"
    model = ["-c", 'model.provider="anthropic"', "--model", "claude-sonnet-4-5"]

    code = main(["run", "x", *model, "-c", setting, "--max-budget-usd", "1"])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.USAGE, "")
    assert 'the price of "nobody-knows-this-1" is not known' in err
    assert logs() == []


def test_the_way_to_go_on_names_what_the_run_was_given(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (work / "pod.toml").rename(work / "my pod.toml")

    main(
        ["run", "x", "-q", "-m", "my pod.toml", "--model", "echo:5", "--max-turns", "1"]
    )

    (hint,) = [
        line for line in capfd.readouterr().err.splitlines() if "go on with" in line
    ]
    assert hint.endswith(""" -m 'my pod.toml' -c 'model.id="echo:5"'""")
