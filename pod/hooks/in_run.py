"""The hooks of one run: what its turn loop asks before requests."""

from collections.abc import Callable

import trio
from msgspec.structs import replace

from pod.compaction.watch import ContextWatch
from pod.entries import CustomMessage, RunEnd
from pod.hooks.around_calls import CallsInRun
from pod.hooks.hooks import Hooks
from pod.hooks.payloads import PreLlmRequest, RunEnded
from pod.session import Session
from tools.text import clean
from worker.endings import Blocked, Yielded
from worker.permit import in_turn
from worker.turn import Setup

KIND = "hook"
"""The kind of the custom messages that hooks have the model told."""

LAST_SECONDS = 5.0
"""How long the hooks of a run's end may take in all, where somebody stopped it."""


class RequestsInRun:
    """Asks the hooks before each request of one run.

    *gate* is asked before them, and again where they put something into the
    history. *responses* gives how many answers the run has had.
    """

    def __init__(
        self,
        hooks: Hooks,
        session: Session,
        watch: ContextWatch,
        *,
        model: str,
        responses: Callable[[], int],
    ) -> None:
        self._hooks = hooks
        self._session = session
        self._watch = watch
        self._model = model
        self._responses = responses
        self._asked = 0
        """The number of the request that they were asked about last."""

    async def gate(self) -> Yielded | Blocked | None:
        """Return what ends the turn before its next request; log what it is to see."""
        if (over := await self._watch.gate()) is not None:
            return over
        request = self._responses() + 1
        if request == self._asked or not self._hooks.has("pre_llm_request"):
            return None
        self._asked = request
        answer = await self._hooks.pre_llm_request(await self._payload(request))
        if answer.stop:
            return Blocked("hook", answer.message)
        cleaned = [clean(text).text for text in answer.context]
        lines = [text for text in cleaned if text.strip()]
        if not lines:
            return None
        self._session.append(*(CustomMessage(kind=KIND, text=text) for text in lines))
        return await self._watch.gate()

    async def _payload(self, request: int) -> PreLlmRequest:
        items, limits = self._session.items, self._watch.thresholds
        return PreLlmRequest(
            session=self._session.id,
            run=self._session.run or "",
            model=self._model,
            request=request,
            items=len(items),
            tokens=await self._watch.occupancy.estimate(items),
            post_run_threshold=limits.post_run if limits else None,
            turn_threshold=limits.turn if limits else None,
            window=self._watch.occupancy.window,
        )


def with_hooks(setup: Setup, hooks: Hooks, session: Session) -> Setup:
    """Return *setup* with *hooks* around its tool calls, behind its permission rules."""
    calls = CallsInRun(hooks, session)
    permit = in_turn(setup.toolbox.permit, calls.permit)
    toolbox = replace(setup.toolbox, permit=permit, hooks=calls)
    return replace(setup, toolbox=toolbox)


async def tell_end(hooks: Hooks, session: Session, end: RunEnd) -> None:
    """Tell the hooks that a run is over.

    Each has its own time limit. Where somebody stopped the run all of them
    together have LAST_SECONDS: a person is waiting. Not cancelled from outside.
    """
    if not hooks.has("run_end"):
        return
    seconds = LAST_SECONDS if end.outcome == "cancelled" else float("inf")
    with trio.move_on_after(seconds, shield=True):
        await hooks.run_end(RunEnded(session=session.id, entry=end))
