"""Hooks that are commands, as real processes."""

import os
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from pod.events import HookFailed
from pod.hooks.answers import MOST_BYTES, PreToolCallAnswer
from pod.hooks.command import ask_command
from pod.hooks.hook import Ask, Hook
from pod.hooks.hooks import Hooks
from pod.hooks.payloads import AnyPayload
from tests.pod.hooks.answering import Failures
from tests.pod.hooks.samples import BEFORE_COMPACT, PRE_TOOL_CALL, RUN_ENDED, SAMPLES

LIMIT = 20
"""Seconds after which a test has failed; nothing waits that long."""


def shell(script: str, cwd: Path, *words: str) -> Ask:
    return ask_command(["sh", "-c", script, "hook", *words], cwd=cwd, env=os.environ)


async def denial(ask: Ask, *, timeout: float = LIMIT) -> str:  # noqa: ASYNC109
    """Return why a call is denied by a hook that fails."""
    failures = Failures()
    one = Hook(event="pre_tool_call", name="h", ask=ask, timeout=timeout)
    answer = await Hooks([one], tell=failures).pre_tool_call(PRE_TOOL_CALL)
    (failed,) = failures.heard
    assert answer.message == f"the hook h failed: {failed.message}"
    return failed.message


@pytest.mark.parametrize("payload", SAMPLES)
async def test_a_command_gets_the_whole_payload_as_one_line_of_json(
    payload: AnyPayload, tmp_path: Path
) -> None:
    answer = await shell("cat > seen", tmp_path)(payload)

    assert answer == b""
    seen = (tmp_path / "seen").read_bytes()
    assert seen == msgspec.json.encode(payload) + b"\n"


async def test_what_it_prints_is_its_answer(tmp_path: Path) -> None:
    ask = shell("""echo '{"deny": true, "message": "not here"}'""", tmp_path)
    hooks = Hooks([Hook(event="pre_tool_call", name="h", ask=ask)])

    answer = await hooks.pre_tool_call(PRE_TOOL_CALL)

    assert answer == PreToolCallAnswer(deny=True, message="not here")


async def test_a_command_that_does_not_read_a_huge_payload_hangs_nobody(
    tmp_path: Path,
) -> None:
    huge = msgspec.structs.replace(BEFORE_COMPACT, previous_summary="x" * 5_000_000)

    with trio.fail_after(LIMIT):
        assert await shell("echo '{}'", tmp_path)(huge) == b"{}\n"


async def test_it_runs_with_its_words_as_they_are_in_its_folder_and_environment(
    tmp_path: Path,
) -> None:
    words = ["a b", "$HOME", "*"]
    script = 'printf "%s\\n" "$@" "$PWD" "$POD_TEST"'
    ask = ask_command(
        ["sh", "-c", script, "hook", *words],
        cwd=tmp_path,
        env={"POD_TEST": "yes", "PATH": os.defpath},
    )

    assert await ask(RUN_ENDED) == f"a b\n$HOME\n*\n{tmp_path}\nyes\n".encode()


async def test_an_exit_code_is_a_failure_and_stderr_says_why(tmp_path: Path) -> None:
    script = "echo '{}'; echo no such rule >&2; exit 3"

    assert await denial(shell(script, tmp_path)) == "exit code 3: no such rule"
    assert await denial(shell("exit 3", tmp_path)) == "exit code 3"
    assert await denial(shell("kill -KILL $$", tmp_path)) == "killed by signal 9"


async def test_of_much_on_stderr_the_end_is_shown_and_no_control_characters(
    tmp_path: Path,
) -> None:
    script = "yes x | head -c 1000000 >&2; printf '\\033[31mthe end' >&2; exit 1"

    message = await denial(shell(script, tmp_path))

    assert len(message) < 2_100
    assert message.endswith("x\nthe end")


async def test_stderr_of_a_command_that_ends_well_is_no_part_of_its_answer(
    tmp_path: Path,
) -> None:
    assert await shell("echo noise >&2; echo '{}'", tmp_path)(RUN_ENDED) == b"{}\n"


async def test_a_command_that_prints_100_megabytes_is_ended(tmp_path: Path) -> None:
    script = "head -c 100000000 /dev/zero; echo done > finished"

    with trio.fail_after(LIMIT):
        message = await denial(shell(script, tmp_path))

    assert message == f"it said more than {MOST_BYTES:,} bytes"
    assert not (tmp_path / "finished").exists()


async def test_a_command_that_prints_without_end_is_ended(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT):
        message = await denial(shell("yes", tmp_path))

    assert message == f"it said more than {MOST_BYTES:,} bytes"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("printf '\\377\\376'", "its answer is no JSON: "),
        ("echo no", "its answer is no JSON: "),
        ("echo '{}{}'", "its answer is no JSON: "),
        ("echo '{\"allow\": true}'", "its answer cannot be used: "),
    ],
)
async def test_what_is_no_answer_is_a_failure(
    script: str, message: str, tmp_path: Path
) -> None:
    assert (await denial(shell(script, tmp_path))).startswith(message)


async def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    ask = ask_command([str(tmp_path / "nope")], cwd=tmp_path, env={})

    message = await denial(ask)

    assert message.startswith("FileNotFoundError: ")
    assert "nope" in message


HOLDS = "mkfifo never; cat never & echo $! > child; "
"""Starts a child that holds stdout and never ends by itself."""


async def wait_ended(pid: int) -> None:
    """Wait until the process *pid* is dying, or gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with trio.fail_after(LIMIT):
        await trio.lowlevel.wait_readable(process)
    os.close(process)


async def test_a_child_that_holds_the_pipe_does_not_keep_the_answer_and_is_ended(
    tmp_path: Path,
) -> None:
    with trio.fail_after(LIMIT):
        answer = await shell(f"{HOLDS} echo '{{}}'", tmp_path)(RUN_ENDED)

    assert answer == b"{}\n"
    await wait_ended(int((tmp_path / "child").read_text()))


async def test_at_its_time_limit_a_command_is_ended_with_its_children(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    os.mkfifo(tmp_path / "begun")
    ask = shell(f"{HOLDS} echo x > begun; cat never", tmp_path)
    messages: list[str] = []

    async def denied() -> None:
        messages.append(await denial(ask, timeout=1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(denied)
        await trio.to_thread.run_sync((tmp_path / "begun").read_text)
        mock_clock.jump(1)
        mock_clock.rate = 1

    assert messages == ["no answer within 1 seconds"]
    await wait_ended(int((tmp_path / "child").read_text()))


async def test_a_cancel_ends_it_with_its_children(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    script = f"{HOLDS} echo x > begun; cat never"
    failures = Failures()
    one = Hook(event="run_end", name="h", ask=shell(script, tmp_path))
    hooks = Hooks([one], tell=failures)

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hooks.run_end, RUN_ENDED)
            await trio.to_thread.run_sync((tmp_path / "begun").read_text)
            nursery.cancel_scope.cancel()

    await wait_ended(int((tmp_path / "child").read_text()))
    assert failures.heard == []


async def test_it_says_by_name_what_failed(tmp_path: Path) -> None:
    failures = Failures()
    one = Hook(event="run_end", name="./tell.sh", ask=shell("exit 9", tmp_path))

    await Hooks([one], tell=failures).run_end(RUN_ENDED)

    assert failures.heard == [HookFailed("run_end", "./tell.sh", "exit code 9")]
