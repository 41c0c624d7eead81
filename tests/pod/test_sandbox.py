"""The sandbox a manifest asks for: chosen, recorded, refused, and used."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from pod.cli import main
from pod.errors import SetupError
from pod.exits import Exit
from pod.load_manifest import Loaded, load
from pod.log import read_log
from pod.open_tools import open_scope, open_tools
from pod.sandbox import find_sandbox, open_box
from tests.tools.sandbox.tiers import need
from tools.base import Call, ToolError
from tools.spill import SpillFolder

MANIFEST = """
[model]
provider = "scripted"
id = "echo:1"
api_key_env = "MY_KEY"
[tools]
builtin = ["bash"]
[session]
dir = "../sessions"
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pod.toml").write_text(MANIFEST)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def loaded(work: Path, *settings: str) -> Loaded:
    return load(work / "pod.toml", settings, work)


@contextmanager
def bash(work: Path, *settings: str) -> Iterator["Shell"]:
    """Open the bash tool as a run does."""
    manifest = loaded(work, *settings)
    spill = work.parent / "files"
    with (
        open_scope(manifest, work, spill) as scope,
        open_box(manifest.manifest, scope, find_sandbox(manifest, work)) as box,
    ):
        (tool,) = open_tools(manifest, work, scope, box=box)
        yield Shell(tool, SpillFolder(spill))


class Shell:
    def __init__(self, tool: object, spill: SpillFolder) -> None:
        self.tool = tool
        self._spill = spill

    async def says(self, command: str) -> str:
        call = Call("c", self._spill, lambda line: None)
        arguments = msgspec.json.encode({"command": command})
        output = await self.tool.run(arguments, call)  # type: ignore[attr-defined]  # a Tool
        return str(output.content)


def test_the_tier_is_in_the_sessions_header_and_in_the_first_event(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need("bwrap")

    code = main(["run", "go", "--output-format", "stream-json"])

    (log,) = (work.parent / "sessions").glob("*.jsonl")
    header = read_log(log).header
    init = json.loads(capfd.readouterr().out.splitlines()[0])
    assert code == Exit.DONE
    assert header is not None
    assert (header.sandbox, init["sandbox"]) == ("bwrap", "bwrap")


def test_a_pod_without_bash_needs_no_sandbox(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "go", "--output-format", "stream-json", "-c", "tools.builtin=[]"])

    init = json.loads(capfd.readouterr().out.splitlines()[0])
    assert init["sandbox"] == "none"


def test_a_session_that_goes_on_in_another_tier_says_so(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need("landlock")
    main(["run", "go", "-q", "-c", 'sandbox.mode="off"'])
    (log,) = (work.parent / "sessions").glob("*.jsonl")

    for _ in range(2):  # the second time there is nothing to say
        main(["run", "on", "--resume", log.stem, "-c", 'sandbox.mode="landlock"'])

    changes = [
        line for line in log.read_text().splitlines() if "sandbox_change" in line
    ]
    assert [(json.loads(c)["tier"], json.loads(c)["previous"]) for c in changes] == [
        ("landlock", "off")
    ]
    said = "bash runs in another sandbox than before: landlock, not off"
    assert capfd.readouterr().err.count(said) == 1


def test_where_no_tier_works_no_run_starts(
    work: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without bash on the PATH neither can be tried."""
    monkeypatch.setenv("PATH", str(work))
    forget_tiers()

    code = main(["run", "go", "-q"])

    forget_tiers()
    err = capfd.readouterr().err
    assert code == Exit.USAGE
    assert err.startswith("pod: no sandbox for bash: none works on this machine\n")
    assert "  bwrap: there is no bash. Install bash.\n" in err
    assert "-c sandbox.mode=off" in err
    assert not list((work.parent / "sessions").glob("*.jsonl"))


def forget_tiers() -> None:
    from tools.sandbox import probe

    probe.try_tier.cache_clear()


async def test_a_command_sees_the_roots_and_nothing_of_the_key(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("bwrap")
    monkeypatch.setenv("MY_KEY", "sk-hunter2")
    monkeypatch.setenv("WANTED", "yes")
    (work.parent / "outside").write_text("sk-hunter2")

    with bash(work, 'sandbox.env=["WANTED"]') as shell:
        said = await shell.says(
            "echo $WANTED; env; cat ../outside; cat /proc/*/environ | tr '\\0' '\\n'"
        )

    assert said.startswith("yes\n")
    assert "hunter2" not in said


async def test_a_long_output_can_be_read_by_the_next_command(work: Path) -> None:
    need("bwrap")
    with bash(work) as shell:
        said = await shell.says("seq 50000")
        path = said.rpartition(" is in ")[2].partition("]")[0]

        again = await shell.says(f"tail -n 1 {path}; echo > {path}")

    assert again.startswith("50000\n")
    assert "Read-only file system" in again


async def test_a_command_too_long_for_a_command_line_runs_in_a_sandbox(
    work: Path,
) -> None:
    need("bwrap")
    with bash(work) as shell:
        assert (await shell.says(f"printf %s '{'x' * 300_000}' | wc -c")).startswith(
            "300000\n"
        )


async def test_what_is_written_to_tmp_is_there_for_the_next_command(work: Path) -> None:
    need("bwrap")
    with bash(work) as shell:
        await shell.says("echo kept > /tmp/file; echo kept > ~/file")
        said = await shell.says("cat /tmp/file ~/file /var/tmp/file")

    assert said.startswith("kept\nkept\nkept\n")
    assert not (Path("/tmp") / "file").exists()


async def test_the_model_is_told_what_commands_may_do(work: Path) -> None:
    need("bwrap")
    with bash(work) as shell:
        description = shell.tool.description  # type: ignore[attr-defined]  # a Tool

    assert f"They can write in {work} and in $TMPDIR" in description
    assert "There is no network but their own." in description


def move_away(work: Path) -> None:
    work.rename(work.parent / "gone")


async def test_a_sandbox_that_breaks_later_fails_the_call_and_runs_nothing(
    work: Path,
) -> None:
    need("bwrap")
    with bash(work) as shell:
        move_away(work)
        with pytest.raises(ToolError) as caught:
            await shell.says("touch ran")

    assert "the command was not run, its sandbox could not be set up: bwrap: " in str(
        caught.value
    )
    assert not (work.parent / "gone/ran").exists()


def test_the_key_is_refused_among_the_variables(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", "go", "-q", "-c", 'sandbox.env=["MY_KEY"]'])

    assert code == Exit.USAGE
    assert '"MY_KEY" holds the provider\'s key: no command may have it' in (
        capfd.readouterr().err
    )


def test_a_mode_that_does_not_work_is_refused_not_replaced(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(work))
    forget_tiers()

    with pytest.raises(SetupError, match='mode = "landlock" does not work'):
        find_sandbox(loaded(work, 'sandbox.mode="landlock"'), work)

    forget_tiers()
