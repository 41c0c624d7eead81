"""Hooks of a manifest, in real runs of the command."""

from pathlib import Path

import pytest
from msgspec import Struct, json

from pod.exits import Exit
from tests.command import Done, environment, pod
from tests.tools.sandbox.tiers import some_bash

KEY = "sk-test-0123456789"


class Line(Struct):
    type: str
    event: str = ""
    hook: str = ""
    message: str = ""
    outcome: str = ""
    reason: str = ""
    text: str = ""


class Listed(Struct):
    id: str


class World:
    """A Pod in work/ whose manifest and hooks are beside it, in pods/."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.pods, self.work = self.folder / "pods", self.folder / "work"
        self.pods.mkdir()
        self.work.mkdir()

    def script(self, name: str, text: str) -> None:
        path = self.pods / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o700)

    async def run(self, hooks: str, *arguments: str) -> Done:
        model = '[model]\nprovider = "scripted"\nid = "echo:2"\n'
        text = f"{model}{hooks}\n{some_bash()}"
        (self.pods / "pod.toml").write_text(text, encoding="utf-8")
        return await self.pod("run", "go", "-m", "../pods/pod.toml", *arguments)

    async def pod(self, *arguments: str) -> Done:
        env = environment(self.folder, ANTHROPIC_API_KEY=KEY)
        return await pod(*arguments, cwd=self.work, env=env)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def lines(done: Done) -> list[Line]:
    return [json.decode(line, type=Line) for line in done.out.splitlines()]


async def test_a_hook_that_ends_a_run_ends_it_with_exit_code_4(world: World) -> None:
    world.script("guard", """echo '{"stop": true, "message": "no shell today"}'""")
    hook = '[[hooks]]\nevent = "pre_tool_call"\ncommand = ["./guard"]\n'

    done = await world.run(hook, "--output-format", "stream-json")

    assert done.code == Exit.BLOCKED
    assert lines(done)[-1] == Line(
        type="result", outcome="blocked", reason="hook", message="no shell today"
    )
    assert "pod: no shell today (blocked)\n" in done.err
    assert "pod run --resume" in done.err


async def test_a_hook_that_denies_leaves_the_run_to_the_model(world: World) -> None:
    world.script("guard", "echo not today >&2; exit 2")
    hook = '[[hooks]]\nevent = "pre_tool_call"\ncommand = ["./guard"]\n'

    done = await world.run(hook, "--output-format", "stream-json")

    failed = [line for line in lines(done) if line.type == "hook_failed"]
    assert (
        failed
        == [
            Line(
                type="hook_failed",
                event="pre_tool_call",
                hook="./guard",
                message="exit code 2: not today",
            )
        ]
        * 2
    )
    assert (done.code, lines(done)[-1].text) == (Exit.DONE, "Done after 2 calls.")
    warning = "the pre_tool_call hook ./guard failed: exit code 2: not today"
    assert warning in done.err


async def test_each_event_of_a_run_reaches_its_command_and_no_key_does(
    world: World,
) -> None:
    world.script("tell", 'cat >> "$POD_CWD/told"; env >> "$POD_CWD/env"')
    events = ("pre_llm_request", "pre_tool_call", "post_tool_call", "run_end")
    hooks = "".join(
        f'[[hooks]]\nevent = "{event}"\ncommand = ["./tell"]\n' for event in events
    )

    done = await world.run(hooks)

    class Told(Struct):
        event: str

    told = (world.work / "told").read_bytes().splitlines()
    assert [json.decode(line, type=Told).event for line in told] == [
        "pre_llm_request",
        "pre_tool_call",
        "post_tool_call",
        "pre_llm_request",
        "pre_tool_call",
        "post_tool_call",
        "pre_llm_request",
        "run_end",
    ]
    assert (done.code, done.out) == (Exit.DONE, "Done after 2 calls.\n")
    assert KEY not in (world.work / "env").read_text(encoding="utf-8")
    assert KEY not in (world.work / "told").read_text(encoding="utf-8")


async def test_what_a_failing_hook_says_after_the_result_is_not_on_stdout(
    world: World,
) -> None:
    world.script("tell", "exit 1")
    hook = '[[hooks]]\nevent = "run_end"\ncommand = ["./tell"]\n'

    done = await world.run(hook, "--output-format", "stream-json")

    assert done.code == Exit.DONE
    assert lines(done)[-1].type == "result"
    assert "the run_end hook ./tell failed: exit code 1" in done.err


async def test_a_run_is_refused_with_hooks_that_the_model_could_write(
    world: World,
) -> None:
    (world.work / "h.py").write_text("def f(call): ...\n", encoding="utf-8")
    hook = '[[hooks]]\nevent = "run_end"\npython = "../work/h.py:f"\n'

    done = await world.run(hook)

    assert (done.code, done.out) == (Exit.USAGE, "")
    assert "pod.toml:6:1: [[hooks]] python:" in done.err
    assert "lies in the write root" in done.err


async def test_a_check_shows_the_hooks_and_runs_their_files(world: World) -> None:
    (world.pods / "h.py").write_text("import nothing_like_it\n", encoding="utf-8")
    (world.pods / "pod.toml").write_text(
        '[[hooks]]\nevent = "run_end"\npython = "h.py:f"\n'
        '[[hooks]]\nevent = "run_end"\ncommand = ["sh", "-c", "true"]\n',
        encoding="utf-8",
    )

    done = await world.pod("check", "-m", "../pods/pod.toml")

    assert done.code == Exit.USAGE
    shown = done.out[done.out.index("[[hooks]]") :]
    manifest = "../pods/pod.toml"
    assert shown.rstrip("\n") == (
        "[[hooks]]\n"
        f'event = "run_end"  # {manifest}:2\n'
        "# unset: command\n"
        f'python = "h.py:f"  # {manifest}:3\n'
        "timeout = 60.0  # default\n"
        "# unset: on_failure\n"
        "tools = []  # default\n"
        "\n"
        "[[hooks]]\n"
        f'event = "run_end"  # {manifest}:5\n'
        f'command = ["sh", "-c", "true"]  # {manifest}:6\n'
        "# unset: python\n"
        "timeout = 60.0  # default\n"
        "# unset: on_failure\n"
        "tools = []  # default"
    )
    assert "[[hooks]] python: h.py, line 1: ModuleNotFoundError" in done.err


async def test_a_compaction_by_hand_that_a_hook_cancels_ends_with_exit_code_4(
    world: World,
) -> None:
    world.script("no", """echo '{"cancel": true, "message": "not now"}'""")
    hook = '[[hooks]]\nevent = "session_before_compact"\ncommand = ["./no"]\n'
    await world.run(f"{hook}[compaction]\nretained_tokens = 1\n")
    (session,) = (await world.pod("session", "list", "--json")).out.splitlines()
    id = json.decode(session, type=Listed).id

    done = await world.pod("compact", id, "-m", "../pods/pod.toml")

    assert (done.code, done.out) == (Exit.BLOCKED, "")
    assert "a hook does not want it: not now" in done.err
