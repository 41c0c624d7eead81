"""Asks the hooks about tool calls, before they run and before their results are kept."""

import trio
from msgspec import Raw
from msgspec.structs import replace

from pod.hooks.answers import withheld
from pod.hooks.hooks import Hooks
from pod.hooks.payloads import PostToolCall, PreToolCall
from pod.session import Session
from worker.items import ToolCall, ToolResult
from worker.permit import Allowed, Decision, Denied, Stopped
from worker.result_hooks import Seen


class CallsInRun:
    """Asks the hooks about tool calls, of the Pod or of its compact worker."""

    def __init__(
        self, hooks: Hooks, session: Session, *, is_compact_worker: bool = False
    ) -> None:
        self._hooks = hooks
        self._session = session
        self._is_compact_worker = is_compact_worker
        self._lock = trio.Lock()

    async def permit(self, call: ToolCall) -> Decision:
        """Say whether *call* may be run. One call at a time is asked about."""
        if not self._hooks.has("pre_tool_call"):
            return Allowed()
        async with self._lock:
            return await self._permit(call)

    async def _permit(self, call: ToolCall) -> Decision:
        answer = await self._hooks.pre_tool_call(
            PreToolCall(
                session=self._session.id,
                run=self._session.run,
                name=call.name,
                call_id=call.call_id,
                arguments=Raw(call.arguments.encode()),
                compact_worker=self._is_compact_worker,
            )
        )
        if answer.stop:
            return Stopped(answer.message, "hook")
        return Denied(answer.message, "hook") if answer.deny else Allowed()

    async def look(self, call: ToolCall, result: ToolResult) -> Seen:
        """Have the hooks look at *result*."""
        if not self._hooks.has("post_tool_call"):
            return Seen(result)
        looked = await self._hooks.post_tool_call(
            PostToolCall(
                session=self._session.id,
                run=self._session.run,
                name=call.name,
                call_id=call.call_id,
                arguments=Raw(call.arguments.encode()),
                is_error=result.is_error,
                summary=result.summary,
                content=result.content,
                images=len(result.images),
            )
        )
        changed = replace(
            result,
            summary=looked.summary,
            content=looked.content,
            images=result.images[: looked.images],
        )
        return Seen(changed, looked.stop)

    def unseen(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return what is kept of a result that no hook has seen."""
        if not self._hooks.withholds(call.name):
            return result
        kept = withheld(call.name, "the run was stopped before its hook had seen it")
        return replace(result, summary=kept.summary, content=kept.content, images=())
