"""``pod run`` under permission rules: what runs, what is told, what it ends with."""

from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.exits import Exit
from tests.command import Done, pod
from tests.tools.sandbox.tiers import some_mode
from worker.loopback.server import Server, serve
from worker.policy import Script, call, say

pytestmark = pytest.mark.timeout(60)


class Denial(Struct, frozen=True):
    tool: str
    call_id: str
    arguments: str
    by: str
    reason: str


class Result(Struct, frozen=True):
    outcome: str
    reason: str
    exit_code: int
    interrupted: bool
    message: str
    permission_denials: tuple[Denial, ...]


def bash(command: str) -> tuple[str, str, str]:
    return ("c1", "bash", msgspec.json.encode({"command": command}).decode())


async def run(server: Server, folder: Path, *more: str) -> Done:
    return await pod(
        "run",
        "go",
        "-q",
        "--output-format=json",
        "-c",
        f"model.base_url={server.base_url}",
        "-c",
        f"session.dir={folder.parent}/sessions",
        "-c",
        f"sandbox.mode={some_mode()}",
        *more,
        cwd=folder,
        env={"ANTHROPIC_API_KEY": "loopback"},
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_denied_call_is_answered_listed_and_not_run(work: Path) -> None:
    async with serve(
        Script([call(bash("echo x > made")), say("I could not")])
    ) as server:
        done = await run(server, work, "--disallowed-tools", "Bash(echo *), Edit")

    result = msgspec.json.decode(done.out, type=Result)
    assert (done.code, result.outcome) == (Exit.DONE, "finished")
    assert not (work / "made").exists()
    (denial,) = result.permission_denials
    assert (denial.tool, denial.by) == ("bash", "rule")
    assert denial.arguments == '{"command":"echo x > made"}'
    assert "disallowed_tools: Bash(echo *)" in denial.reason


async def test_with_a_list_of_allowed_tools_nothing_else_runs(work: Path) -> None:
    script = Script(
        [
            call(
                ("c1", "bash", '{"command":"touch one"}'),
                ("c2", "bash", '{"command":"touch two; rm -rf one"}'),
                ("c3", "write_file", '{"path":"three","content":"x"}'),
            ),
            say("done"),
        ]
    )
    async with serve(script) as server:
        done = await run(server, work, "--allowedTools", "Bash(touch *)")

    result = msgspec.json.decode(done.out, type=Result)
    assert names(work) == ["one"]
    assert [denial.call_id for denial in result.permission_denials] == ["c2", "c3"]


async def test_a_rule_set_to_stop_ends_the_run_with_exit_code_4(work: Path) -> None:
    rule = 'permissions.rules=[{tool="bash", pattern="curl *", action="stop"}]'
    script = Script([call(bash("touch one && curl http://localhost")), say("done")])
    async with serve(script) as server:
        done = await run(server, work, "-c", rule)

    result = msgspec.json.decode(done.out, type=Result)
    assert (done.code, result.exit_code) == (Exit.BLOCKED, Exit.BLOCKED)
    assert (result.outcome, result.reason) == ("blocked", "permission")
    assert result.interrupted
    assert result.message == (
        "a permission rule ends the run here"
        ' ([[permissions.rules]] 1: bash "curl *" stop)'
    )
    assert names(work) == []
    assert [denial.call_id for denial in result.permission_denials] == ["c1"]
    assert "go on with: pod run --resume" in done.err


async def test_a_person_is_told_how_many_calls_were_not_allowed(work: Path) -> None:
    kept = ("-c", f"session.dir={work.parent}/sessions")
    async with serve(Script([call(bash("touch one")), say("ok")])) as server:
        done = await pod(
            "run",
            "go",
            *("--permission-mode", "dontAsk"),
            *("-c", f"model.base_url={server.base_url}"),
            *kept,
            cwd=work,
            env={"ANTHROPIC_API_KEY": "loopback"},
        )

    assert (done.code, done.out) == (0, "ok\n")
    assert "1 tool call (1 error, 1 not allowed)" in done.err
    (log,) = (work.parent / "sessions").glob("*.jsonl")
    shown = await pod("session", "show", str(log.stem), *kept, cwd=work)
    assert "permission: bash denied by default (default_action" in shown.out


async def test_what_nobody_can_be_asked_about_is_denied(work: Path) -> None:
    async with serve(Script([call(bash("touch one")), say("ok")])) as server:
        done = await run(server, work, "--permission-mode", "acceptEdits")

    result = msgspec.json.decode(done.out, type=Result)
    assert [denial.by for denial in result.permission_denials] == ["nobody"]
    assert names(work) == []


async def test_the_plan_mode_only_looks(work: Path) -> None:
    (work / "a").write_text("text")
    script = Script(
        [
            call(
                ("c1", "read_file", '{"path":"a"}'),
                ("c2", "write_file", '{"path":"b","content":"x"}'),
                ("c3", "bash", '{"command":"true"}'),
            ),
            say("ok"),
        ]
    )
    async with serve(script) as server:
        done = await run(server, work, "--permission-mode=plan")

    result = msgspec.json.decode(done.out, type=Result)
    assert [denial.call_id for denial in result.permission_denials] == ["c2", "c3"]
    assert names(work) == ["a"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--allowed-tools", "Bash(git *"),
            (
                '"Bash(git *" is not allowed; it takes a tool, or a tool and a pattern,'
                ' like "Bash(git *)"'
            ),
        ),
        (
            ("-c", 'permissions.rules=[{tol="bash", action="allow"}]'),
            "[permissions] rules[0].tol: unknown key; did you mean tool?",
        ),
        (
            ("-c", 'permissions.rules=[{action="alow"}]'),
            (
                '[permissions] rules[0].action: "alow" is not allowed; it takes'
                ' "allow", "deny", "ask" or "stop"; did you mean "allow"?'
            ),
        ),
        (("--permission-mode", "yolo"), "yolo"),
    ],
)
async def test_a_rule_that_is_none_is_refused_with_its_place(
    work: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = await pod("run", "go", *arguments, cwd=work)

    assert done.code == Exit.USAGE
    assert message in done.err
