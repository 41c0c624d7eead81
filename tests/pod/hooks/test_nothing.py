"""Without hooks nothing changes."""

from msgspec import Raw

from pod.entries import FileDetails
from pod.hooks.answers import BeforeCompactAnswer, PreToolCallAnswer
from pod.hooks.hooks import Hooks
from pod.hooks.payloads import BeforeCompact, PreToolCall


async def test_without_hooks_every_answer_is_the_one_that_changes_nothing() -> None:
    hooks = Hooks()
    before = BeforeCompact(
        session="s",
        reason="manual",
        will_retry=False,
        mode="worker",
        tokens_before=1,
        first_kept=None,
        instructions="",
        previous_summary="",
        is_split_turn=False,
        items=(),
        turn_prefix=(),
        details=FileDetails(),
    )
    call = PreToolCall(
        session="s", run="r", name="bash", call_id="c", arguments=Raw(b"{}")
    )

    answers = (await hooks.before_compact(before), await hooks.pre_tool_call(call))

    assert answers == (BeforeCompactAnswer(), PreToolCallAnswer())
