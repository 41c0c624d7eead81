"""Mode "native": the provider's own block, and the text beside it for everybody else.

The played provider holds requests to what the SDK's types say of the beta: the
block comes first, unchanged, signed, and for its own model.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal

import msgspec
import pytest
import trio
from msgspec.structs import replace

from pod.compaction.job import Done
from pod.compaction.native_block import kept_text, native_in
from pod.hooks.answers import CompactingAnswer
from pod.session import Session
from tests.pod.compaction.pods import (
    MODEL,
    TABLE,
    FillingPod,
    Make,
    fetching,
    unpaired,
)
from tests.pod.compaction.test_hooks_around import Told
from worker import items
from worker.anthropic_client import AnthropicClient
from worker.api import Compact, Message, Opaque, Request, Text
from worker.client import Client, Delta, Failure, ProviderError, Response
from worker.events import Warning
from worker.items import Native, SystemText
from worker.loopback.server import serve
from worker.policy import Decide, FailingWhen, Policy, Reply, Route, say
from worker.wire import NATIVE_BETA, to_request

NATIVE = replace(TABLE, mode="native", order=("mechanical",))
OFF = replace(NATIVE, enabled=False)
CONTENT = "The provider's own summary."


def compacting(otherwise: Policy) -> Policy:
    """Summarise when asked to compact."""
    return Decide(
        lambda r: say(CONTENT) if r.compaction is not None else otherwise.reply(r)
    )


class Listening:
    """A client that keeps the requests it passes on, in a list of the test's."""

    def __init__(self, client: Client, asked: list[Request]) -> None:
        self._client = client
        self._asked = asked

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self._asked.append(request)
        return await self._client.ask(request, on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


def native_pod(make: Make, **options: object) -> tuple[FillingPod, list[Request]]:
    asked: list[Request] = []
    given = {
        "table": NATIVE,
        "main": compacting(fetching(8)),
        "wrap": lambda client: Listening(client, asked),
        **options,
    }
    return make(**given), asked


def blocks(request: Request) -> Sequence[object]:
    """Return the content of the first message."""
    return request.messages[0].content


def system(request: Request) -> str:
    return "\n".join(block.text for block in request.system)


async def test_the_block_is_kept_and_sent_first_as_it_came(make: Make) -> None:
    pod, asked = native_pod(make, calls=8)

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    [entry] = pod.compactions
    native = native_in(entry.preserve_data)
    assert (entry.mode, entry.receipt.attempts) == ("native", ("native: used",))
    assert native is not None
    assert (native.provider, native.model) == ("scripted", "m")
    block = msgspec.json.decode(native.json, type=dict[str, str])
    assert (block["type"], block["content"]) == ("compaction", CONTENT)
    [request] = [r for r in asked if r.compaction is not None]
    after = asked[asked.index(request) + 1]
    assert request.betas == after.betas == (NATIVE_BETA,)
    assert asked[0].betas == ()
    first = after.messages[0]
    assert first.role == "assistant"
    assert first.content == (Opaque(msgspec.Raw(native.json.encode())),)
    assert entry.summary not in system(after)
    assert "Fetch everything." in system(after)  # the directives stay what they are
    assert request.system[0] == after.system[0] == asked[0].system[0]


async def test_the_text_beside_it_is_the_mechanical_one(make: Make) -> None:
    pod, _ = native_pod(make, calls=8)

    await pod.pod.run("Fetch everything.")

    [entry] = pod.compactions
    assert entry.summary.startswith("## Completed Tasks")
    assert CONTENT not in entry.summary
    assert isinstance(pod.session.items[0], SystemText)


async def test_another_model_gets_the_text(make: Make) -> None:
    """omp#6343, #6415: after a switch nobody could read what was compacted."""
    pod, _ = native_pod(make, calls=8)
    await pod.pod.run("Fetch everything.")
    entry = pod.compactions[-1]
    other = replace(MODEL, id="other")

    there, asked = native_pod(make, table=OFF, model=other)
    await there.pod.run("Go on.")
    back, again = native_pod(make, table=OFF)
    await back.pod.run("Go on.")

    assert "## Completed Tasks" in system(asked[0])
    assert asked[0].betas == ()
    assert asked[0].messages[0].role == "user"
    assert native_in(entry.preserve_data) is not None
    assert isinstance(blocks(again[0])[0], Opaque)
    assert "## Completed Tasks" not in system(again[0])


async def test_the_next_compaction_goes_on_from_the_block(make: Make) -> None:
    pod, asked = native_pod(make, calls=14, main=compacting(fetching(14)))

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    requests = [r for r in asked if r.compaction is not None]
    assert len(requests) == len(pod.compactions) >= 2
    assert isinstance(blocks(requests[1])[0], Opaque)


async def test_a_session_opened_again_sends_the_same(make: Make) -> None:
    pod, _ = native_pod(make, calls=8)
    await pod.pod.run("Fetch everything.")
    history = list(pod.session.items)
    assert isinstance(history[0], SystemText)
    assert history[0].native is not None
    pod.close()

    with Session.open(pod.path) as session:
        assert list(session.items) == history


async def test_the_request_to_compact_begins_as_the_pod_s_own_do(make: Make) -> None:
    """So that the prompt cache serves it: rivals.md #117."""
    pod, asked = native_pod(make, calls=8)

    await pod.pod.run("Fetch everything.")

    [request] = [r for r in asked if r.compaction is not None]
    before = asked[asked.index(request) - 1]
    assert (request.system, request.tools) == (before.system, before.tools)
    [entry] = pod.compactions
    assert entry.usage.cache_read > 0


async def test_instructions_and_hooks_reach_the_provider(make: Make) -> None:
    await make(calls=6, table=OFF).pod.run("Fetch.")
    told = Told(
        compacting=CompactingAnswer(context=("Branch: main",), preserve_data='{"k": 1}')
    )
    pod, asked = native_pod(make, table=OFF, hooks=told.hooks)

    outcome = await pod.pod.compact(mode="native", instructions="Mind the gap.")

    assert isinstance(outcome, Done)
    [request] = asked
    assert request.compaction is not None
    assert request.compaction.instructions.endswith("\n\nMind the gap.\n\nBranch: main")
    kept = msgspec.json.decode(outcome.entry.preserve_data, type=dict[str, object])
    assert kept["hook"] == {"k": 1}
    assert native_in(outcome.entry.preserve_data) is not None


class Answering:
    """A client that answers requests to compact with *reply*."""

    def __init__(self, client: Client, reply: Reply) -> None:
        self._client = client
        self._reply = reply

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        if request.compaction is None:
            return await self._client.ask(request, on_delta)
        await trio.lowlevel.checkpoint()
        return Response(
            message_id="m",
            model=request.model,
            items=self._reply.items,
            stop_reason=self._reply.stop_reason,
        )

    async def count_tokens(self, request: Request) -> int:
        return await self._client.count_tokens(request)


def opaque(json: str, stop_reason: str = "compaction") -> Reply:
    return Reply((items.Opaque(json, ""),), stop_reason=stop_reason)


@pytest.mark.parametrize(
    "reply",
    [
        opaque('{"type":"compaction","content":null}'),
        opaque('{"type":"compaction"}'),
        opaque('{"type":"thinking","content":"x"}'),
        opaque('{"type":"compaction","content":"x"}', "end_turn"),
        say("I'll continue with the next step."),
        Reply((), stop_reason="compaction"),
    ],
)
async def test_an_answer_without_a_block_is_a_failure(reply: Reply, make: Make) -> None:
    pod = make(
        calls=8,
        table=NATIVE,
        wrap=lambda client: Answering(client, reply),
    )

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    [entry] = pod.compactions
    assert entry.receipt.attempts[0].startswith(
        "native: no_summary: the provider gave no compaction block"
    )
    assert (entry.mode, entry.preserve_data) == ("mechanical", "")
    assert pod.session.breakers["native"].failures == 1
    assert unpaired(pod.told) == []


async def test_a_provider_that_has_no_such_beta_is_a_failure_and_no_more(
    make: Make,
) -> None:
    refused = Failure("invalid", "compaction: Extra inputs are not permitted", 400)
    main = FailingWhen(
        fetching(8), lambda r: refused if r.compaction is not None else None
    )
    pod, _ = native_pod(make, calls=8, main=main)

    end = await pod.pod.run("Fetch everything.")

    assert end.outcome == "finished"
    assert pod.compactions[0].mode == "mechanical"


async def test_a_block_that_is_not_taken_back_is_replaced_by_the_text(
    make: Make,
) -> None:
    """An account was changed, or a gateway: the run goes on with what can be read."""
    pod, _ = native_pod(make, calls=8)
    await pod.pod.run("Fetch everything.")
    refused = Failure(
        "invalid", "compaction_signature_invalid: the signature does not verify", 400
    )

    def refuse(request: Request) -> Failure | None:
        return refused if isinstance(blocks(request)[0], Opaque) else None

    again, asked = native_pod(make, table=OFF, main=FailingWhen(fetching(8), refuse))
    end = await again.pod.run("Go on.")

    assert end.outcome == "finished"
    assert "## Completed Tasks" in system(asked[-1])
    [warning] = [
        w.message for w in again.heard.of(Warning) if "compaction" in w.message
    ]
    assert warning.endswith("; sending the text beside it")


async def test_a_block_that_is_not_taken_back_is_not_sent_again_in_later_turns(
    make: Make,
) -> None:
    pod, _ = native_pod(make, calls=8)
    await pod.pod.run("Fetch everything.")

    def refuse(request: Request) -> Failure | None:
        has_block = isinstance(blocks(request)[0], Opaque)
        return (
            Failure("invalid", "compaction: no such block", 400) if has_block else None
        )

    again, asked = native_pod(make, table=OFF, main=FailingWhen(fetching(8), refuse))
    for prompt in ("Go on.", "And on.", "And on."):
        end = await again.pod.run(prompt)
        assert end.outcome == "finished"

    sent = [request for request in asked if isinstance(blocks(request)[0], Opaque)]
    assert len(sent) == 1
    assert len(again.heard.of(Warning)) == 1


async def test_a_refusal_that_no_block_of_ours_explains_is_not_asked_for_again(
    make: Make,
) -> None:
    failure = Failure("invalid", "compaction is not for this account", 400)
    pod, asked = native_pod(
        make, main=FailingWhen(fetching(8), lambda request: failure)
    )

    end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, len(asked)) == ("failed", 1)


async def test_a_block_that_was_changed_is_refused_by_the_played_provider(
    make: Make,
) -> None:
    pod, _ = native_pod(make, calls=8)
    await pod.pod.run("Fetch everything.")
    item = pod.session.items[0]
    assert isinstance(item, SystemText)
    assert item.native is not None
    changed = item.native.json.replace(CONTENT, "Something else.")

    for json, code in (
        (changed, "compaction_content_mismatch"),
        (changed.replace('"signature":"', '"signature":"x'), "compaction_signature"),
    ):
        native = replace(item.native, json=json)
        request = to_request(
            [replace(item, native=native), *pod.session.items[1:]],
            system="s",
            tools=pod.setup.specs,
            model=MODEL,
        )
        with pytest.raises(ProviderError, match=code):
            await pod.setup.client.ask(request, lambda delta: None)


def test_what_is_kept_is_read_back_and_anything_else_is_nothing() -> None:
    native = Native("anthropic", "claude-x", '{"type":"compaction", "content" : "a"}')

    assert native_in(kept_text(native, "")) == native
    assert native_in(kept_text(native, '{"mine": [1]}')) == native
    for text in ("", "{}", "[", '{"native": 7}', '{"native": {"model": "m"}}'):
        assert native_in(text) is None


async def test_it_works_over_http_and_needs_the_beta_header(make: Make) -> None:
    policy = Route({}, compacting(fetching(8)))
    model = replace(MODEL, provider="anthropic", id="claude-loopback")
    async with (
        serve(policy, window=60_000) as server,
        AnthropicClient(api_key="loopback", base_url=server.base_url) as client,
    ):
        pod = make(calls=8, table=NATIVE, model=model, wrap=lambda _: client)

        end = await pod.pod.run("Fetch everything.")

    assert (end.outcome, end.text) == ("finished", "All 8 are fetched.")
    [entry] = pod.compactions
    assert entry.mode == "native"
    assert entry.cost_usd == float(Decimal("0.01"))
    betas = [r.headers.get("anthropic-beta", "") for r in server.requests]
    assert NATIVE_BETA in betas[-1]
    assert NATIVE_BETA not in betas[0]


async def test_without_the_beta_header_the_server_refuses() -> None:
    request = Request(
        model="claude-loopback",
        max_tokens=100,
        system=(),
        messages=(Message("user", (Text("Hi."),)),),
        compaction=Compact(),
    )
    async with (
        serve(Decide(lambda r: say(CONTENT))) as server,
        AnthropicClient(api_key="loopback", base_url=server.base_url) as opened,
    ):
        client: Client = opened
        with pytest.raises(ProviderError, match="Extra inputs are not permitted"):
            await client.ask(request, lambda delta: None)

        betas = replace(request, betas=(NATIVE_BETA,))
        response = await client.ask(betas, lambda delta: None)

    assert response.stop_reason == "compaction"
