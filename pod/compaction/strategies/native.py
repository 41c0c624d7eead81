"""The provider's own compaction: a signed block that only its model can read.

Anthropic's beta ``compact-2026-09-04``. The block is kept in *preserve_data* and
sent first, unchanged, to the same model; everybody else gets the text that is
made beside it without a model.
"""

from decimal import Decimal

import trio

from pod.compaction.ground import Ground
from pod.compaction.native_block import block_of, kept_text
from pod.compaction.strategies.mechanical import Mechanical
from pod.compaction.strategies.strategy import Errand, Missed
from pod.compaction.summary import Summary
from pod.entries import Mode
from prompts import fill
from worker.api import Compact, Request
from worker.ask import Broken, ask
from worker.client import TRANSIENT, ProviderError, Response
from worker.compact.summary_prompts import Brief
from worker.events import without_deltas
from worker.items import Native
from worker.usage import Usage
from worker.wire import to_request


class ByProvider:
    """Has the Pod's own model's provider compact what is summarised."""

    mode: Mode = "native"

    def __init__(self, errand: Errand) -> None:
        self._errand = errand

    @property
    def input_tokens(self) -> int:
        return self._errand.own.usage.prompt

    async def summarise(self, start: Ground, brief: Brief) -> Summary:
        errand, of = self._errand, self._errand.of
        seconds, model = of.settings.seconds, of.setup.model
        with trio.move_on_after(seconds) as scope:
            response = await self._response(self._request(start, brief))
        if scope.cancelled_caught:
            late = f"not done after {seconds:g} seconds (summarize_timeout)"
            raise Missed("timeout", late, counts=True)
        block = block_of(response.items)
        if response.stop_reason != "compaction" or block is None:
            why = f"the provider gave no compaction block ({response.stop_reason})"
            raise Missed("no_summary", why, counts=True)
        beside = await Mechanical(errand).summarise(start, brief)
        native = Native(provider=model.provider, model=model.id, json=block)
        return Summary(
            mode=self.mode,
            text=beside.text,
            references=beside.references,
            preserve_data=kept_text(native, errand.kept_data),
            model=model.id,
        )

    def _request(self, start: Ground, brief: Brief) -> Request:
        """Return the request whose messages are what is summarised.

        It begins as the Pod's own requests do, so that the prompt cache serves it.
        """
        setup, items = self._errand.of.setup, self._errand.of.session.items
        leading = items[: len(items) - len(start.items)]
        return to_request(
            [*leading, *start.head],
            system=setup.system,
            tools=setup.specs,
            model=setup.model,
            cache=setup.cache,
            compact=Compact(_instructions(brief)),
        )

    async def _response(self, request: Request) -> Response:
        errand, setup = self._errand, self._errand.of.setup
        own = errand.own
        if reached := own.reached(errand.of.means(errand.spent).limits):
            raise Missed("input_limit", reached.message)
        own.record_request()
        broken: list[Broken] = []
        try:
            answer = await ask(
                setup.client,
                request,
                retry=setup.retry,
                jitter=setup.jitter,
                listen=without_deltas(errand.of.tell),
                billed=broken.append,
            )
        except ProviderError as error:
            failure = error.failure
            raise Missed(
                "overflow" if failure.kind == "overflow" else "api",
                failure.message,
                counts=failure.kind not in TRANSIENT,
            ) from error
        finally:
            for attempt in broken:
                own.charge(attempt.usage, setup.price(request.model, attempt.usage))
        usage = answer.response.usage
        cost: Decimal | None = None
        if usage is not None:
            with trio.CancelScope(shield=True):  # or a cancel would lose what is billed
                cost = await trio.to_thread.run_sync(setup.price, request.model, usage)
        own.charge(usage or Usage(), cost)
        return answer.response


def _instructions(brief: Brief) -> str:
    """Return what takes the place of the provider's prompt; "" leaves it its own."""
    wishes = (brief.instructions.strip(), *brief.context)
    if not brief.prompt.strip() and not any(wishes):
        return ""
    order = brief.prompt.strip() or fill("native_order")
    return "\n\n".join([order, *filter(None, wishes)])
