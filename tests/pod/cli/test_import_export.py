"""``pod import`` and ``pod export`` as commands."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import environment, pod
from tests.pod.importing.imports import write_lines
from tests.pod.importing.pi_makers import (
    answer,
    call,
    chained,
    compaction,
    header,
    result,
    text,
    user,
)
from tests.tools.sandbox.tiers import some_bash

MANIFEST = """
[model]
provider = "scripted"
id = "echo:1"
[session]
dir = "../sessions"
[compaction]
retained_tokens = 1
""" + some_bash()
KEY = "sk-ant-api03-" + "a1B2" * 10


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def given(folder: Path, *, extra: str = "") -> Path:
    """Put a manifest and a session of pi's into *folder*."""
    (folder / "pod.toml").write_text(MANIFEST)
    lines = chained(
        [
            user(f"read it {extra}"),
            answer(text("I will"), call("c1", path="a.py"), stop="toolUse"),
            result("c1", "print(1)\n" * 300),
            answer(text("it prints 1")),
            user("and now?"),
            answer(call("c2", path="b.py"), stop="aborted"),
        ]
    )
    return write_lines(folder / "their.jsonl", [header(), *lines])


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def text_of(path: str) -> str:
    return Path(path).read_text()


async def imported(folder: Path, *, extra: str = "") -> str:
    """Import that session; return its id."""
    given(folder, extra=extra)
    done = await pod("import", "their.jsonl", "--json", cwd=folder)
    assert done.code == 0, done.err
    id: str = json.loads(done.out)["session"]
    return id


async def test_what_came_and_what_did_not_is_told(work: Path) -> None:
    given(work)

    done = await pod("import", "their.jsonl", cwd=work)

    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].endswith(", imported from pi (format 3)")
    assert lines[1:4] == [
        "read    7 records, 2 user messages, 3 answers, 2 tool calls, 0 compactions",
        "not as it was:",
        "      1  calls without a result: answered with an error that says so",
    ]


async def test_for_programs_the_same_is_json_and_the_log_has_it_too(
    work: Path,
) -> None:
    given(work)

    done = await pod("import", "their.jsonl", "--json", cwd=work)

    told = json.loads(done.out)
    assert told["agent"] == "pi"
    assert told["counts"]["tool_calls"] == 2
    assert told["not_carried_over"] == {
        "calls without a result: answered with an error that says so": 1
    }
    last = json.loads(text_of(told["path"]).splitlines()[-1])
    assert (last["type"], last["kind"]) == ("custom", "import")
    assert json.loads(last["json"])["counts"]["tool_calls"] == 2


async def test_an_imported_session_is_shown_compacted_and_gone_on_with(
    work: Path,
) -> None:
    id = await imported(work)

    shown = await pod("session", "show", id, cwd=work)
    planned = await pod("compact", id, "--dry-run", "--mode", "mechanical", cwd=work)
    compacted = await pod("compact", id, "--mode", "mechanical", cwd=work)
    run = await pod("run", "go on", "--resume", id, "-q", cwd=work)

    assert (shown.code, planned.code, compacted.code, run.code) == (0, 0, 0, 0), (
        shown.err + planned.err + compacted.err + run.err
    )
    assert "user       and now?" in shown.out
    assert "summarised" in planned.out
    assert run.err == ""  # nothing is known of a sandbox before, so none has changed
    assert (
        "a.py" in (await pod("session", "show", id, "--compaction", "1", cwd=work)).out
    )


async def test_of_another_agents_compaction_only_what_its_file_says_is_told(
    work: Path,
) -> None:
    (work / "pod.toml").write_text(MANIFEST)
    lines = chained(
        [
            user("go"),
            answer(text("done")),
            compaction("they did it", firstKeptEntryId="a2"),
            user("and now?"),
        ]
    )
    write_lines(work / "their.jsonl", [header(), *lines])
    done = await pod("import", "their.jsonl", "--json", cwd=work)
    id = json.loads(done.out)["session"]

    line = await pod("session", "show", id, cwd=work)
    receipt = await pod("session", "show", id, "--compaction", "1", cwd=work)
    transcript = await pod("export", id, cwd=work)

    unknown = "1,000 tokens before, after it not known"
    assert f"compaction 1 (manual): {unknown}, by another agent\n" in line.out
    assert receipt.out.splitlines()[1:] == [
        "why        manual: 1,000 tokens",
        "mode       another agent's, before the import",
        f"tokens     {unknown}",
        "",
        "they did it",
    ]
    assert "*1,000 tokens before*" in transcript.out


async def test_a_listing_says_that_a_session_was_imported(work: Path) -> None:
    id = await imported(work)

    done = await pod("session", "list", "--json", cwd=work)

    told = json.loads(done.out)
    assert (told["id"], told["outcome"], told["prompt"]) == (id, "imported", "read it")
    assert names_in(work.parent / "sessions") == [f"{id}.jsonl"]


async def test_a_name_that_is_no_text_is_shown_as_far_as_it_can_be(work: Path) -> None:
    file = given(work).rename(os.fsdecode(os.fsencode(work) + b"/\xff.jsonl"))

    done = await pod("import", str(file), cwd=work)

    assert done.code == 0, done.err


@pytest.mark.parametrize("name", ["nothing.jsonl", "text.txt", "folder", "."])
async def test_what_is_no_session_is_refused_in_one_line(work: Path, name: str) -> None:
    (work / "text.txt").write_text("hello\nworld\n")
    (work / "folder").mkdir()

    done = await pod("import", name, cwd=work)

    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith(f"pod: {name}: ")


async def test_a_fifo_is_refused_and_never_waited_for(work: Path) -> None:
    os.mkfifo(work / "pipe")

    done = await pod("import", "pipe", cwd=work)

    assert (done.code, done.err) == (2, "pod: pipe: not a plain file\n")


async def test_a_session_of_pods_own_is_refused_with_what_to_do(work: Path) -> None:
    id = await imported(work)

    done = await pod("import", f"../sessions/{id}.jsonl", cwd=work)

    assert done.code == 2
    assert "pod run --resume" in done.err


@pytest.mark.parametrize("format", ["md", "json", "atif", "pi"])
async def test_an_export_is_the_same_every_time_and_without_keys(
    work: Path, format: str
) -> None:
    id = await imported(work, extra=f"with {KEY} and my odd value")
    secret = {"ANTHROPIC_API_KEY": "my odd value"}

    one = await pod("export", id, "--format", format, cwd=work, env=secret)
    two = await pod("export", id, "-f", format, cwd=work, env=secret)
    open_ = await pod("export", id, "-f", format, "--no-redact", cwd=work)

    assert (one.code, open_.code) == (0, 0), one.err + open_.err
    assert one.out == two.out
    assert "it prints 1" in one.out
    assert KEY not in one.out
    assert "my odd value" not in one.out
    assert KEY in open_.out
    assert "my odd value" in open_.out
    assert "secrets replaced by [redacted]" in one.err


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_IDENTITY_TOKEN", "MINE"],
)
async def test_an_export_knows_every_secret_that_a_request_is_signed_with(
    work: Path, name: str
) -> None:
    id = await imported(work, extra="and my odd value")
    key = ("-c", "model.api_key_env=MINE")

    done = await pod("export", id, *key, cwd=work, env={name: "my odd value\n"})

    assert "my odd value" not in done.out
    assert "read it and [redacted]" in done.out


async def test_a_file_is_never_written_over_unless_asked(work: Path) -> None:
    id = await imported(work)
    (work / "out.md").write_text("mine")

    refused = await pod("export", id, "-o", "out.md", cwd=work)
    kept = (work / "out.md").read_text()
    forced = await pod("export", id, "-o", "out.md", "--force", cwd=work)

    assert (refused.code, kept, forced.code) == (2, "mine", 0)
    assert refused.err == "pod: out.md is there already: --force writes over it\n"
    assert (work / "out.md").read_text().startswith("# Session ")
    assert (work / "out.md").stat().st_mode & 0o777 == 0o600
    assert names_in(work) == ["out.md", "pod.toml", "their.jsonl"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (".", ". is a folder: name a file in it"),
        ("none/out.md", "none: no such folder"),
    ],
)
async def test_a_place_where_no_file_can_be_is_named(
    work: Path, place: str, said: str
) -> None:
    id = await imported(work)

    done = await pod("export", id, "-o", place, "--force", cwd=work)

    assert (done.code, done.err) == (2, f"pod: {said}\n")


@pytest.mark.parametrize("format", ["json", "atif"])
async def test_an_export_for_other_programs_is_refused_with_what_to_do(
    work: Path, format: str
) -> None:
    id = await imported(work)
    await pod("export", id, "-f", format, "-o", "out", cwd=work)

    done = await pod("import", "out", cwd=work)

    assert done.code == 2
    assert "pod export -f pi" in done.err


async def test_what_is_exported_for_pi_comes_back(work: Path) -> None:
    id = await imported(work)

    await pod("export", id, "-f", "pi", "-o", "back.jsonl", cwd=work)
    again = await pod("import", "back.jsonl", "--json", cwd=work)

    assert again.code == 0, again.err
    assert json.loads(again.out)["counts"]["tool_calls"] == 2
    assert json.loads(again.out)["not_carried_over"] == {}


async def test_the_folder_of_sessions_can_be_named(work: Path) -> None:
    given(work)

    done = await pod("import", "their.jsonl", "--dir", "other", "--json", cwd=work)

    assert Path(json.loads(done.out)["path"]).parent.name == "other"


def test_neither_loads_anything_heavy(work: Path) -> None:
    given(work)
    program = (
        "import sys\n"
        "from pod.cli import main\n"
        "code = main(['import', 'their.jsonl'])\n"
        "from pathlib import Path\n"
        "id = next(Path('../sessions').glob('*.jsonl')).stem\n"
        "codes = [main(['export', id, '-f', f]) for f in ('md', 'json', 'atif', 'pi')]\n"
        "heavy = ('anthropic', 'pydantic', 'tiktoken', 'toktok', 'httpx2')\n"
        "loaded = [n for n in heavy if n in sys.modules]\n"
        "sys.exit(' '.join(loaded) or code or max(codes))\n"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=work,
        env=environment(work),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
