"""``pod compact`` and the receipts of ``pod session show``."""

import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import ceil
from pathlib import Path

import msgspec
import pytest

from pod.cli import main
from pod.cli.compact import compact_loaded
from pod.cli.options import Options
from pod.entries import (
    FORMAT,
    Compaction,
    CompactionFailed,
    CompactionStart,
    Header,
    ItemEntry,
    Known,
    RunEnd,
    RunStart,
)
from pod.exits import Exit
from pod.load_manifest import load
from pod.log import read_log
from pod.open_model import model_of
from pod.session import Session
from pod.survey import survey
from tests.makers import call, result, said, user
from tests.worker.compact.policies import Stalling
from worker.client import Client
from worker.counters import O200k
from worker.items import Item, ToolResult, UserText
from worker.scripted import ScriptedClient
from worker.tokens import count_item, factor_for

SCRIPTED = ("-c", 'model.provider="scripted"', "-c", 'model.id="survey"')
TOO_SMALL = ("-c", "compaction.summary_target=10", "-c", "compaction.summary_cap=20")
"""No summary is so small: the compact worker fails."""
ORDER = "Look at every file and write down what is in it."


def history(exchanges: int) -> list[Item]:
    """Return a run of *exchanges* reads of about 1,000 tokens each."""
    items: list[Item] = [user(ORDER)]
    for number in range(exchanges):
        text = f"line of file {number}\n" * 200
        items += [call(f"c{number}"), result(f"c{number}", text)]
    return [*items, said("All done.")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder to work in, and a home for the sessions."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    made = (tmp_path / "work").resolve()
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def begun(folder: Path) -> Callable[..., Path]:
    """Return what leaves a session behind; it returns the log."""

    def begin(*items: Item, cwd: Path = folder) -> Path:
        path = (
            folder.parent / "state" / "pod" / "sessions" / "20260101-000000-abcd.jsonl"
        )
        header = Header(
            format=FORMAT,
            id=path.stem,
            at="2026-01-01T00:00:00.000Z",
            cwd=str(cwd),
            system="You are a test.",
        )
        end = RunEnd(outcome="finished", reason="done", exit_code=0)
        with Session.create(path, header, durability="flush") as session:
            session.append(
                RunStart(model="survey"), *(ItemEntry(item=i) for i in items), end
            )
        return path

    return begin


def entries(path: Path, *kinds: type[Known]) -> list[Known]:
    found = read_log(path).entries
    return [entry for entry in found if isinstance(entry, kinds)]


def test_it_compacts_and_gives_the_receipt(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    code = main(["compact", path.stem, *SCRIPTED])

    out, err = capfd.readouterr()
    start, done = entries(path, CompactionStart, Compaction)
    assert code == Exit.DONE
    assert isinstance(start, CompactionStart)
    assert isinstance(done, Compaction)
    assert (start.reason, done.mode) == ("manual", "worker")
    assert done.tokens_after < done.tokens_before / 2
    assert out.startswith("compaction 1 of 1: done, ")
    assert re.search(
        r"^tokens     [\d,]+ before, [\d,]+ after: [\d,]+ saved", out, re.MULTILINE
    )
    assert f"summary    pod session show {path.stem} --compaction 1\n" in out
    assert "the session keeps the system prompt it began with" in err
    assert "⇣ compacting (manual): " in err


def test_instructions_reach_the_compact_worker(begun: Callable[..., Path]) -> None:
    path = begun(*history(30))

    main(["compact", path.stem, "--instructions", "Mind the gap.", *SCRIPTED])

    (transcript,) = path.with_suffix(".files").glob("compact-*.jsonl")
    task = transcript.read_text().splitlines()[1]
    assert "<instructions>\\nMind the gap.\\n</instructions>" in task


def test_a_mode_of_its_own_takes_the_place_of_the_manifests(
    begun: Callable[..., Path],
) -> None:
    path = begun(*history(30))

    code = main(["compact", path.stem, "--mode", "mechanical", *SCRIPTED])

    (done,) = entries(path, Compaction)
    assert code == Exit.DONE
    assert isinstance(done, Compaction)
    assert done.mode == "mechanical"
    assert done.receipt.worker_requests == 0


def test_a_dry_run_shows_what_the_worker_gets_and_changes_nothing(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))
    before = {p: p.read_bytes() for p in path.parent.rglob("*") if p.is_file()}

    code = main(
        ["compact", path.stem, "--instructions", "Mind it.", "--dry-run", *SCRIPTED]
    )

    out, _ = capfd.readouterr()
    shown = out.partition("it would begin with this message:\n\n")[2]
    assert code == Exit.DONE
    assert {p: p.read_bytes() for p in path.parent.rglob("*") if p.is_file()} == before
    assert re.search(r"^summarised \d+ items, [\d,]+ tokens$", out, re.MULTILINE)
    assert re.search(
        r"^budgets    summary 2,000, at most 4,000; marks 8,000; ", out, re.MULTILINE
    )
    main(["compact", path.stem, "--instructions", "Mind it.", *SCRIPTED])
    (transcript,) = path.with_suffix(".files").glob("compact-*.jsonl")
    first = transcript.read_text().splitlines()[1]
    assert shown == f"{msgspec.json.decode(first, type=UserText).text}\n"


def test_a_dry_run_needs_no_key(begun: Callable[..., Path]) -> None:
    path = begun(*history(30))

    assert main(["compact", path.stem, "--dry-run"]) == Exit.DONE


def test_a_dry_run_says_what_is_cut_where_it_will_be_cut(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    main(["compact", path.stem, "--dry-run", *SCRIPTED])
    main(["compact", path.stem, "-q", *SCRIPTED])

    out, _ = capfd.readouterr()
    cuts = re.findall(
        r"^(?:summarised|kept) +\d+ items, [\d,]+ tokens$", out, re.MULTILINE
    )
    assert cuts[:2] == cuts[2:]
    assert len(cuts) == 4


def test_a_dry_run_without_a_model_shows_the_summary(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    code = main(["compact", path.stem, "--dry-run", "--mode", "mechanical", *SCRIPTED])

    out, _ = capfd.readouterr()
    shown = out.partition("the summary would be:\n\n")[2]
    assert code == Exit.DONE
    main(["compact", path.stem, "--mode", "mechanical", *SCRIPTED])
    (done,) = entries(path, Compaction)
    assert isinstance(done, Compaction)
    assert shown == f"{done.summary}\n"


def test_a_session_in_use_can_be_looked_at_but_not_compacted(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    with Session.open(path):
        dry = main(["compact", path.stem, "--dry-run", *SCRIPTED])
        real = main(["compact", path.stem, *SCRIPTED])

    assert (dry, real) == (Exit.DONE, Exit.FAILED)
    assert path.stem in capfd.readouterr().err


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_where_there_is_nothing_to_summarise_it_says_so(
    begun: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
) -> None:
    path = begun(*history(1))

    code = main(["compact", path.stem, *flags, *SCRIPTED])

    out, err = capfd.readouterr()
    assert code == Exit.CONTEXT
    assert out == ""
    assert err.count("there is nothing to summarise") == 1
    assert entries(path, CompactionStart) == []


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_where_nothing_could_make_room_it_names_the_parts(
    begun: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
) -> None:
    path = begun(*history(30), user("word " * 40_000), said("Oh."))
    small = ("-c", "compaction.low_water=0.001", "-c", "model.context_window=200000")

    code = main(["compact", path.stem, *flags, *small, *SCRIPTED])

    out, err = capfd.readouterr()
    assert code == Exit.CONTEXT
    assert out == ""
    assert "system prompt" in err
    assert entries(path, CompactionStart) == []


def test_a_failure_is_told_and_leaves_the_history_as_it_was(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    code = main(["compact", path.stem, "--mode", "worker", *TOO_SMALL, *SCRIPTED])

    out, err = capfd.readouterr()
    (failed,) = entries(path, CompactionFailed)
    assert code == Exit.FAILED
    assert out == ""
    assert isinstance(failed, CompactionFailed)
    assert err.rstrip().endswith(f"pod: {failed.message}")
    with Session.open(path) as session:
        assert list(session.items) == history(30)


async def test_ctrl_c_ends_it_and_the_history_is_as_it_was(
    folder: Path, begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))
    settings = ('model.provider="scripted"', 'model.id="survey"')
    loaded = load(None, settings, folder)
    scripted = ScriptedClient(survey(), model_of(loaded.manifest))
    client = Stalling(
        scripted, answers=1, stalled=lambda: signal.raise_signal(signal.SIGINT)
    )

    @asynccontextmanager
    async def open_client() -> AsyncIterator[Client]:
        yield client

    code = await compact_loaded(
        loaded, folder, Options(resume=path.stem), "", None, False, open_client
    )

    out, err = capfd.readouterr()
    (failed,) = entries(path, Compaction, CompactionFailed)
    assert code == Exit.SIGINT
    assert out == ""
    assert "pod: stopped; the history is as it was\n" in err
    assert isinstance(failed, CompactionFailed)
    assert failed.code == "cancelled"
    with Session.open(path) as session:
        assert list(session.items) == history(30)


def test_it_is_refused_in_another_folder(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = begun(*history(30), cwd=tmp_path)

    refused = main(["compact", path.stem, *SCRIPTED])
    taken = main(["compact", path.stem, "--refresh-prompt", *SCRIPTED])

    assert (refused, taken) == (Exit.USAGE, Exit.DONE)
    assert f"go on there with --cd {tmp_path}" in capfd.readouterr().err


def test_without_a_key_nothing_is_begun(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))
    before = path.read_bytes()

    code = main(["compact", path.stem])

    assert code == Exit.AUTH
    assert path.read_bytes() == before
    assert "ANTHROPIC_API_KEY" in capfd.readouterr().err


def test_every_compaction_has_a_line_and_a_receipt(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))
    main(["compact", path.stem, "--mode", "worker", *TOO_SMALL, *SCRIPTED])
    main(["compact", path.stem, *SCRIPTED])
    capfd.readouterr()

    main(["session", "show", path.stem])
    shown = capfd.readouterr().out
    main(["session", "show", path.stem, "--compaction", "1"])
    first = capfd.readouterr().out
    main(["session", "show", path.stem, "--compaction", "2"])
    second = capfd.readouterr().out

    (done,) = entries(path, Compaction)
    assert isinstance(done, Compaction)
    assert shown.count("  compaction 1 failed: too_large; ") == 1
    assert shown.count("  compaction 2 (manual): ") == 1
    assert "breaker of worker: closed, 1 failure in a row" in shown
    assert first.startswith("compaction 1 of 2: failed, ")
    assert "\nfailed     too_large: Compaction failed: " in first
    assert second.startswith("compaction 2 of 2: done, ")
    assert second.endswith(f"\n\n{done.summary}\n")


def test_the_events_of_one_compaction_can_be_had_alone(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))
    main(["compact", path.stem, *SCRIPTED])
    capfd.readouterr()

    main(["session", "show", path.stem, "--compaction", "1", "--json"])

    lines = capfd.readouterr().out.splitlines()
    kinds = [re.search(r'"type":"(\w+)"', line) for line in lines]
    assert [kind and kind[1] for kind in kinds] == ["compact_start", "compact_done"]


@pytest.mark.parametrize("number", ["0", "2", "-1"])
def test_a_compaction_that_is_not_there_is_named(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str], number: str
) -> None:
    path = begun(*history(30))
    main(["compact", path.stem, *SCRIPTED])
    capfd.readouterr()

    code = main(["session", "show", path.stem, f"--compaction={number}"])

    out, err = capfd.readouterr()
    assert code == Exit.USAGE
    assert out == ""
    assert err == (
        f"pod: --compaction {number}: no such compaction in {path.stem}:"
        " it has 1, counted from 1\n"
    )


def test_mode_summarize_asks_a_model_once(begun: Callable[..., Path]) -> None:
    path = begun(*history(90))

    code = main(["compact", path.stem, "--mode", "summarize", *SCRIPTED])

    (done,) = entries(path, Compaction)
    assert code == Exit.DONE
    assert isinstance(done, Compaction)
    assert (done.mode, done.receipt.worker_requests) == ("summarize", 1)
    assert done.summary.startswith("No prior history.\n\n---\n\n**Turn Context (split")


LOOK = ("compact", "--mode", "summarize", "--dry-run")


def test_a_dry_run_from_an_entry_shows_the_cut_that_would_be_made_there(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """The entry counts as the last one of the session; what is behind it does not."""
    path = begun(user("First."), said("One. " * 8_000, "r1"), *history(90))
    before = path.read_bytes()
    items = entries(path, ItemEntry)
    at = items[2 + 2 * 30]  # the result of the thirtieth read

    code = main([*LOOK, path.stem, "--at", at.id, *SCRIPTED])

    out, _ = capfd.readouterr()
    shown = {line[:11].strip(): line[11:] for line in out.splitlines()}
    kept = _kept(items[:63])
    assert code == Exit.DONE
    assert path.read_bytes() == before
    assert shown["mode"] == "summarize"
    assert shown["first kept"] == f"{items[kept].id} (assistant)"
    assert shown["summarised"].startswith(f"{kept} items, ")
    assert shown["split turn"].startswith(f"{kept - 2} of them, ")
    assert shown["kept"].startswith(f"{63 - kept} items, ")
    assert "<conversation>\n[User]: First.\n" in out


def _kept(items: list[Known]) -> int:
    """Return the rule's index: 20,000 tokens from the newest on, then a legal point.

    A read has about 1,200 tokens; a call and its result go together.
    """
    tokens, factor = O200k(), factor_for("survey")
    left = 20_000
    for at in range(len(items) - 1, -1, -1):
        entry = items[at]
        assert isinstance(entry, ItemEntry)
        left -= ceil(count_item(entry.item, tokens) * factor)
        if left <= 0:
            return at + isinstance(entry.item, ToolResult)
    raise AssertionError("all of it fits")


def test_a_dry_run_from_an_entry_that_is_not_there_says_so(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    code = main([*LOOK, path.stem, "--at", "nowhere", *SCRIPTED])

    _, err = capfd.readouterr()
    assert code == Exit.FAILED
    assert "Entry nowhere not found" in err


def test_a_compaction_itself_is_made_where_the_session_stands(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))

    code = main(["compact", path.stem, "--at", "nowhere", *SCRIPTED])

    _, err = capfd.readouterr()
    assert code == Exit.USAGE
    assert "--at needs --dry-run" in err


def test_a_server_that_is_not_named_cannot_be_asked(
    begun: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = begun(*history(30))
    before = path.read_bytes()

    codes = [
        main(["compact", path.stem, "--mode", "remote", *SCRIPTED, *more])
        for more in ([], ["--dry-run"])
    ]

    out, err = capfd.readouterr()
    assert (codes, out) == ([Exit.USAGE, Exit.USAGE], "")
    assert "-c compaction.remote_endpoint=URL" in err
    assert path.read_bytes() == before
