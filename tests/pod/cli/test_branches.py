"""``pod session tree``, ``goto``, ``fork`` and ``label``."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from pod.cli import main
from pod.cli.branches import Asked, go_loaded
from pod.cli.options import Options
from pod.cli.run import run_loaded
from pod.entries import (
    FORMAT,
    AnyEntry,
    BranchSummary,
    Header,
    ItemEntry,
    NavigationFailed,
    PromptChange,
    RunEnd,
    RunStart,
)
from pod.exits import Exit
from pod.load_manifest import load
from pod.log import read_log
from pod.open_model import model_of
from pod.session import Session
from pod.tree import Tree
from tests.fakes import Step, StepClient, said as answer
from tests.makers import call, result, said, user
from tests.tools.sandbox.tiers import some_mode
from tests.worker.compact.policies import Stalling
from worker.api import Request, Text
from worker.client import Client, Failure, OpenClient
from worker.items import Item
from worker.policy import Decide, Reply, Script, say
from worker.scripted import ScriptedClient

ID = "20260101-000000-abcd"
SCRIPTED = (
    *("-c", 'model.provider="scripted"', "-c", 'model.id="echo"'),
    *("-c", f"sandbox.mode={some_mode()}"),
)
DONE = RunEnd(outcome="finished", reason="done", exit_code=0)


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


class Log:
    """A session of two runs: q1 - a1 - (end) - q2 - call, result, a2 - (end)."""

    def __init__(self, folder: Path) -> None:
        self.path = folder.parent / "state" / "pod" / "sessions" / f"{ID}.jsonl"
        header = Header(
            format=FORMAT,
            id=ID,
            at="2026-01-01T00:00:00.000Z",
            cwd=str(folder),
            system="You are a test.",
        )

        def run(*items: Item) -> list[AnyEntry]:
            start = RunStart(model="echo")
            found = session.append(start, *(ItemEntry(item=i) for i in items), DONE)
            return list(found)

        with Session.create(self.path, header, durability="flush") as session:
            first = run(user("q1"), said("a1"))
            second = run(user("q2"), call("c"), result("c"), said("a2"))
        self.a1, self.end1 = first[2].id, first[3].id
        self.q2, self.a2, self.end2 = second[1].id, second[4].id, second[5].id

    @property
    def entries(self) -> list[AnyEntry]:
        return list(read_log(self.path).entries)

    @property
    def tree(self) -> Tree:
        return Tree(self.entries)


@pytest.fixture
def log(folder: Path) -> Log:
    return Log(folder)


Out = pytest.CaptureFixture[str]


def client_of(*steps: tuple[Step, str] | Step) -> OpenClient:
    """Return what opens a model that gives these answers."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Client]:
        yield StepClient(*steps)

    return opened


async def go(folder: Path, asked: Asked, client: OpenClient) -> int:
    loaded = load(None, ("model.provider='scripted'", "model.id='echo'"), folder)
    return await go_loaded(loaded, folder, asked, client)


def test_goto_a_message_prints_its_text_and_stands_before_it(
    log: Log, capfd: Out
) -> None:
    code = main(["session", "goto", ID, log.q2])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.DONE, "q2\n")
    assert f"{ID} stands at {log.end1}" in err
    assert log.tree.leaf == log.end1


@pytest.mark.parametrize("how", ["id", "prefix", "label"])
def test_an_entry_is_named_by_its_id_a_part_of_it_or_a_label(
    log: Log, capfd: Out, how: str
) -> None:
    main(["session", "label", ID, log.a1, "good"])
    named = {"id": log.a1, "prefix": log.a1[:7], "label": "good"}[how]

    code = main(["session", "goto", ID, named])

    assert (code, log.tree.leaf) == (Exit.DONE, log.a1)
    assert capfd.readouterr().out == ""


def test_the_root_can_be_gone_to(log: Log) -> None:
    assert main(["session", "goto", ID, "root"]) == Exit.DONE
    assert log.tree.leaf is None


def test_what_is_not_there_is_one_line_and_changes_nothing(
    log: Log, capfd: Out
) -> None:
    before = log.entries

    code = main(["session", "goto", ID, "zz", "--summarize"])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.FAILED, "")
    assert err == (
        "pod: Entry zz not found: no id begins so, no label is it; pod session tree"
        " shows what is there\n"
    )
    assert log.entries == before


def test_a_label_that_two_entries_have_names_neither(log: Log, capfd: Out) -> None:
    main(["session", "label", ID, log.a1, "x"])
    main(["session", "label", ID, log.a2, "x"])

    assert main(["session", "goto", ID, "x"]) == Exit.FAILED
    assert "2 entries have the label x" in capfd.readouterr().err


def test_the_leaf_survives_and_the_next_run_begins_there(log: Log, capfd: Out) -> None:
    main(["session", "goto", ID, log.q2])

    code = main(["run", "--resume", ID, "q3", *SCRIPTED, "--refresh-prompt", "-q"])

    assert code == Exit.DONE
    texts = [
        entry.item
        for entry in log.tree.path(log.tree.leaf)
        if isinstance(entry, ItemEntry)
    ]
    assert texts[:3] == [user("q1"), said("a1"), user("q3")]


def test_a_summary_is_made_where_it_is_asked_for(log: Log, capfd: Out) -> None:
    code = main(["session", "goto", ID, log.q2, "--summarize", *SCRIPTED])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.DONE, "q2\n")
    assert "summarising the branch that is left (6 entries)" in err
    assert "4 messages summarised; $0.0000" in err
    entry = log.entries[-1]
    assert isinstance(entry, BranchSummary)
    assert (entry.parent, entry.from_id) == (log.end1, log.end2)


def test_where_nothing_is_left_behind_no_summary_is_made_and_that_is_said(
    log: Log, capfd: Out
) -> None:
    main(["session", "goto", ID, log.a1])
    capfd.readouterr()

    code = main(["session", "goto", ID, log.a2, "--summarize", *SCRIPTED])

    assert code == Exit.DONE
    assert capfd.readouterr().err.splitlines() == [
        "pod: nothing was left behind, so there is no summary",
        f"pod: {ID} stands at {log.a2}",
    ]


@pytest.mark.parametrize(
    ("flags", "made"),
    [((), True), (("--no-summarize",), False), (("--summarize",), True)],
)
def test_the_manifest_says_what_goes_without_saying(
    log: Log, flags: tuple[str, ...], made: bool
) -> None:
    enabled = ("-c", "branch_summary.enabled=true")

    assert main(["session", "goto", ID, log.a1, *flags, *enabled, *SCRIPTED]) == 0

    assert isinstance(log.entries[-1], BranchSummary) == made


def test_without_a_key_no_summary_is_made_and_nothing_moves(
    log: Log, capfd: Out
) -> None:
    assert main(["session", "goto", ID, log.a1, "--summarize"]) == Exit.AUTH

    assert "ANTHROPIC_API_KEY" in capfd.readouterr().err
    assert log.tree.leaf == log.end2


def test_instructions_without_a_summary_are_refused(log: Log, capfd: Out) -> None:
    assert main(["session", "goto", ID, log.a1, "--instructions", "x"]) == Exit.USAGE
    assert "add --summarize" in capfd.readouterr().err


def test_as_json_it_says_all_of_it(log: Log, capfd: Out) -> None:
    main(["session", "goto", ID, log.q2, "--json", "--summarize", *SCRIPTED])

    assert msgspec.json.decode(capfd.readouterr().out) == {
        "session": ID,
        "old_leaf": log.end2,
        "new_leaf": log.entries[-1].id,
        "text": "q2",
        "summary": log.entries[-1].id,
    }


async def test_a_failing_model_leaves_the_session_where_it_was(
    log: Log, folder: Path, capfd: Out
) -> None:
    asked = Asked(session=ID, entry=log.a1, summarize=True)
    client = client_of(Failure("billing", "no credit left"))

    with pytest.RaisesGroup(
        pytest.RaisesExc(Exception, match="no credit left"), flatten_subgroups=True
    ):
        await go(folder, asked, client)

    assert log.tree.leaf == log.end2
    failed = log.entries[-1]
    assert isinstance(failed, NavigationFailed)
    assert failed.code == "api"


async def test_the_next_request_tells_the_model_what_was_tried(
    log: Log, folder: Path
) -> None:
    """Through the client that refuses what the API would refuse."""
    seen: list[Request] = []

    def reply(request: Request) -> Reply:
        seen.append(request)
        return say("I tried a cache." if "<conversation>" in str(request) else "ok")

    scripted = ("model.provider='scripted'", "model.id='echo'")
    settings = (*scripted, f"sandbox.mode={some_mode()}")
    model = model_of(load(None, settings, folder).manifest)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Client]:
        yield ScriptedClient(Decide(reply), model)

    options = Options(resume=ID, refresh_prompt=True, quiet=True)
    await go(folder, Asked(session=ID, entry=log.q2, summarize=True), opened)
    code = await run_loaded(load(None, settings, folder), folder, options, "q3", opened)

    assert code == Exit.DONE
    last = [*seen[-1].system, *(b for m in seen[-1].messages for b in m.content)]
    texts = [block.text for block in last if isinstance(block, Text)]
    assert any(
        text.startswith("[Summary of a branch that was left")
        and "I tried a cache." in text
        for text in texts
    )
    assert "q2" not in texts
    assert texts[-1] == "q3"


def test_a_failure_is_one_line(log: Log, capfd: Out) -> None:
    """The scripted model refuses a request that is larger than its window."""
    tiny = ("-c", "model.context_window=300", "-c", "model.max_tokens=100")

    off = ("-c", "compaction.enabled=false")
    where = ("session", "goto", ID, log.a1, "--summarize")

    code = main([*where, *SCRIPTED, *tiny, *off])

    err = capfd.readouterr().err
    assert code == Exit.FAILED
    assert "pod: Branch summary failed:" in err
    assert "Traceback" not in err
    assert log.tree.leaf == log.end2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_it_and_the_session_stays(
    log: Log, folder: Path, capfd: Out, number: signal.Signals
) -> None:
    model = model_of(load(None, (), folder).manifest)

    @asynccontextmanager
    async def stalling() -> AsyncIterator[Client]:
        yield Stalling(
            ScriptedClient(Script([]), model),
            answers=0,
            stalled=lambda: signal.raise_signal(number),
        )

    asked = Asked(session=ID, entry=log.a1, summarize=True)

    assert await go(folder, asked, stalling) == 128 + number

    assert "stands where it stood" in capfd.readouterr().err
    assert log.tree.leaf == log.end2


def test_a_session_that_is_open_elsewhere_is_not_moved(log: Log, capfd: Out) -> None:
    with Session.open(log.path):
        assert main(["session", "goto", ID, log.a1]) == Exit.FAILED
        assert main(["session", "label", ID, log.a1, "x"]) == Exit.FAILED

    err = capfd.readouterr().err
    assert err.count("pod: ") == 2
    assert "is in use by process" in err
    assert log.tree.leaf == log.end2


def items_of(path: Path) -> list[Item]:
    tree = Tree(read_log(path).entries)
    return [e.item for e in tree.path(tree.leaf) if isinstance(e, ItemEntry)]


def test_a_run_can_go_on_from_an_entry(log: Log) -> None:
    """Before it, where it is a message; with the prompt as it is now."""
    run = ("run", "--resume", ID, "--refresh-prompt", "-q", *SCRIPTED)

    assert main([*run, "--at", log.q2, "q3"]) == Exit.DONE
    assert main([*run, "--at", log.a1, "q4"]) == Exit.DONE

    assert items_of(log.path)[:3] == [user("q1"), said("a1"), user("q4")]
    tree = log.tree
    changes = [e for e in tree.path(tree.leaf) if isinstance(e, PromptChange)]
    assert len(changes) == 1, "the prompt is taken where the session goes on"


def test_a_run_in_a_copy_can_go_on_from_an_entry(log: Log) -> None:
    before = log.entries

    copied = ("run", "--resume", ID, "--fork", "--at", log.q2)

    code = main([*copied, "q3", "-q", "--refresh-prompt", *SCRIPTED])

    [copy] = [path for path in log.path.parent.glob("*.jsonl") if path != log.path]
    assert code == Exit.DONE
    assert items_of(copy)[:3] == [user("q1"), said("a1"), user("q3")]
    assert log.entries == before


def test_a_run_from_an_entry_asks_the_hooks(log: Log, folder: Path, capfd: Out) -> None:
    manifest = hooked(folder, "session_before_tree", '{"cancel":true,"message":"no"}')

    code = main(
        ["run", "--resume", ID, "--at", log.a1, "q3", "-q", *SCRIPTED, *manifest]
    )

    assert code == Exit.BLOCKED
    assert f"pod: --at {log.a1}: no" in capfd.readouterr().err
    assert log.tree.leaf == log.end2


def test_a_run_in_another_folder_does_not_move_the_session(
    log: Log, folder: Path
) -> None:
    other = folder.parent / "other"
    other.mkdir()

    code = main(
        ["run", "--resume", ID, "--at", log.a1, "q", "-C", str(other), *SCRIPTED]
    )

    assert code == Exit.USAGE
    assert log.tree.leaf == log.end2


def test_a_run_from_an_entry_that_is_not_there_changes_nothing(
    log: Log, capfd: Out
) -> None:
    before = log.entries

    assert main(["run", "--resume", ID, "--at", "zz", "q", *SCRIPTED]) == Exit.FAILED
    assert main(["run", "--at", "zz", "q", *SCRIPTED]) == Exit.USAGE

    err = capfd.readouterr().err
    assert "Entry zz not found" in err
    assert "--at goes with --resume ID or --continue" in err
    assert log.entries == before


def test_a_fork_is_a_session_of_its_own(log: Log, capfd: Out) -> None:
    main(["session", "label", ID, log.a1, "good"])
    before = log.entries

    code = main(["session", "fork", ID])

    new = capfd.readouterr().out.strip()
    scan = read_log(log.path.with_name(f"{new}.jsonl"))
    assert code == Exit.DONE
    assert scan.header is not None
    assert scan.header.parent_session == ID
    tree = Tree(scan.entries)
    kinds = [type(entry) for entry in tree.path(tree.leaf)]
    assert kinds == [type(entry) for entry in log.tree.path(log.end2)]
    assert [label.label for label in tree.labels.values()] == ["good"]
    assert log.entries == before


def test_a_fork_ends_before_a_message_and_tells_it(log: Log, capfd: Out) -> None:
    main(["session", "fork", ID, log.q2, "--json"])

    made = msgspec.json.decode(capfd.readouterr().out, type=dict[str, str])
    new = made.pop("session")
    assert made == {"parent": ID, "leaf": log.end1, "text": "q2"}
    tree = Tree(read_log(log.path.with_name(f"{new}.jsonl")).entries)
    assert len(tree.path(tree.leaf)) == 4


def test_a_fork_can_be_made_while_the_session_is_open(log: Log) -> None:
    with Session.open(log.path):
        assert main(["session", "fork", ID, log.a1]) == Exit.DONE


def test_a_label_is_set_cleared_and_the_last_one_wins(log: Log) -> None:
    def labels() -> list[str]:
        return [label.label for label in log.tree.labels.values()]

    main(["session", "label", ID, log.a1, " one "])
    assert labels() == ["one"]
    main(["session", "label", ID, log.a1, "two"])
    assert labels() == ["two"]
    assert main(["session", "label", ID, "two", ""]) == Exit.DONE
    assert labels() == []
    assert log.tree.leaf == log.end2


@pytest.mark.parametrize("name", ["a\nb", "x" * 81, "\x1b[31m"])
def test_a_label_is_one_short_line(log: Log, capfd: Out, name: str) -> None:
    assert main(["session", "label", ID, log.a1, name]) == Exit.USAGE
    assert "a label is one line" in capfd.readouterr().err


def test_no_label_is_lost_on_the_way_to_the_root(log: Log, capfd: Out) -> None:
    code = main(["session", "goto", ID, "root", "--label", "x"])

    assert (code, log.tree.leaf) == (Exit.USAGE, log.end2)
    assert "the root cannot have a label" in capfd.readouterr().err


def test_the_root_has_no_label(log: Log, capfd: Out) -> None:
    assert main(["session", "label", ID, "root", "x"]) == Exit.USAGE
    assert "the root cannot have a label" in capfd.readouterr().err


def test_the_tree_is_drawn(log: Log, capfd: Out) -> None:
    main(["session", "goto", ID, log.q2, "-q"])
    main(["session", "label", ID, log.a2, "first try"])
    capfd.readouterr()

    assert main(["session", "tree", ID]) == Exit.DONE

    out = capfd.readouterr().out.splitlines()
    assert out[0] == f"session {ID}: 12 entries, 1 branch; it stands at {log.end1}"
    [here] = [line for line in out if "stands here" in line]
    assert here.startswith(log.end1)
    assert f"   {log.a2}  assistant  a2  [first try]" in out
    assert out[-1].startswith(f"   {log.a2}")


def test_the_tree_as_json_has_a_line_for_each_entry(log: Log, capfd: Out) -> None:
    main(["session", "tree", ID, "--json"])

    lines = capfd.readouterr().out.splitlines()
    first = msgspec.json.decode(lines[1])
    assert len(lines) == len(log.entries)
    assert first == {
        "id": log.entries[1].id,
        "parent": log.entries[0].id,
        "seq": 2,
        "at": log.entries[1].at,
        "type": "item",
        "item": "user_text",
        "text": "user       q1",
        "label": "",
        "on_path": True,
        "is_leaf": False,
    }
    assert sum(msgspec.json.decode(line)["is_leaf"] for line in lines) == 1


def test_the_tree_of_a_damaged_log_is_drawn_and_the_damage_told(
    log: Log, capfd: Out
) -> None:
    text = log.path.read_text().splitlines(keepends=True)
    log.path.write_text("".join([*text[:3], "{broken}\n", *text[3:]]))

    assert main(["session", "tree", ID]) == Exit.FAILED

    out, err = capfd.readouterr()
    assert "assistant  a2" in out
    assert ":4: " in err


def test_a_branch_summary_shows_in_the_session(log: Log, capfd: Out) -> None:
    main(["session", "goto", ID, log.a1, "--summarize", *SCRIPTED])
    capfd.readouterr()

    main(["session", "show", ID])

    assert f"branch summary of {log.end2}: Done after 0 calls." in (
        capfd.readouterr().out
    )


async def test_the_summary_is_what_the_model_said(
    log: Log, folder: Path, capfd: Out
) -> None:
    asked = Asked(
        session=ID,
        entry=log.a1,
        summarize=True,
        instructions="briefly",
        label="tried",
        as_json=True,
    )

    code = await go(folder, asked, client_of([answer("## Goal\nNone.")]))

    assert code == Exit.DONE
    entry = log.entries[-2]
    assert isinstance(entry, BranchSummary)
    assert entry.summary == "## Goal\nNone."
    assert log.tree.labels[entry.id].label == "tried"


def hooked(folder: Path, event: str, said: str) -> tuple[str, ...]:
    """Return what puts a command in place that says *said* at *event*."""
    place = folder.parent / "hooks"
    place.mkdir()
    (place / "pod.toml").write_text(
        f'[[hooks]]\nevent = "{event}"\ncommand = ["sh", "-c", \'echo "$0"\', {said!r}]\n'
    )
    return ("-m", str(place / "pod.toml"))


@pytest.mark.parametrize("summarize", [False, True])
def test_a_hook_of_the_manifest_can_veto(
    log: Log, folder: Path, capfd: Out, summarize: bool
) -> None:
    veto = '{"cancel":true,"message":"not on a Friday"}'
    manifest = hooked(folder, "session_before_tree", veto)
    flags = ("--summarize", *SCRIPTED) if summarize else ()

    code = main(["session", "goto", ID, log.a1, *flags, *manifest])

    assert code == Exit.BLOCKED
    assert f"pod: not on a Friday; {ID} stands where it stood" in capfd.readouterr().err
    assert log.tree.leaf == log.end2


def test_a_hook_of_the_manifest_can_write_the_summary(log: Log, folder: Path) -> None:
    summary = '{"summary":{"text":"By hand."}}'
    manifest = hooked(folder, "session_before_tree", summary)

    main(["session", "goto", ID, log.a1, "--summarize", *SCRIPTED, *manifest])

    entry = log.entries[-1]
    assert isinstance(entry, BranchSummary)
    assert (entry.summary, entry.from_hook) == ("By hand.", True)


def test_a_hook_that_fails_is_told_and_the_session_goes_there(
    log: Log, folder: Path, capfd: Out
) -> None:
    manifest = hooked(folder, "session_before_tree", "nonsense")

    assert main(["session", "goto", ID, log.a1, *manifest]) == Exit.DONE

    assert "the session_before_tree hook" in capfd.readouterr().err
    assert log.tree.leaf == log.a1
