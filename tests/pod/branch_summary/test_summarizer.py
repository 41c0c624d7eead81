"""One call to a model, its retries, its deadline, and what it cost."""

from collections.abc import Callable, Sequence
from decimal import Decimal

import pytest
import trio
from msgspec.structs import replace

from pod.branch_summary.summarizer import (
    MAX_TOKENS,
    UNKNOWN_WINDOW,
    BranchSummarizer,
)
from pod.branch_summary.summary import Summarized
from pod.entries import AnyEntry, FileDetails
from pod.errors import NavigationMissed, NavigationRefused
from prompts import load
from tests.fakes import Heard, Step, StepClient, said as answer, thought
from tests.makers import call, result, said, user
from tests.pod.compaction.histories import path_of
from tests.turns import MODEL, setup_for
from worker.api import Request, Text
from worker.client import Delta, Failure, Response, TextDelta
from worker.events import Retry, Warning
from worker.items import FromModel
from worker.limits import Spent
from worker.model import Model
from worker.retry import RetryPolicy
from worker.scripted import Script, ScriptedClient, say
from worker.turn import Setup
from worker.usage import Usage

BRANCH = path_of(
    user("Fix the parser."),
    call("1", name="edit_file", arguments='{"path":"parser.py"}'),
    result("1"),
    said("Fixed."),
)
OVERFLOW = Failure("overflow", "prompt is too long")
BUSY = Failure("overloaded", "busy", usage=Usage(input=7))


def setup_of(client: StepClient, model: Model = MODEL) -> Setup:
    setup = setup_for(client, [], model=model)
    return replace(setup, retry=RetryPolicy(base=0.001, cap=60.0))


def prompt_of(request: Request) -> str:
    [message] = request.messages
    return "".join(block.text for block in message.content if isinstance(block, Text))


async def summarize(
    client: StepClient,
    branch: Sequence[AnyEntry] = BRANCH,
    *,
    model: Model = MODEL,
    heard: Heard | None = None,
    spent: Spent | None = None,
    instructions: str = "",
    replace_instructions: bool = False,
    reserve_tokens: int = 16_384,
    seconds: float = 300.0,
) -> Summarized:
    summarizer = BranchSummarizer(
        setup_of(client, model),
        listen=heard or Heard(),
        reserve_tokens=reserve_tokens,
        seconds=seconds,
    )
    return await summarizer.summarize(
        branch,
        spent=spent or Spent(),
        instructions=instructions,
        replace_instructions=replace_instructions,
    )


async def test_the_summary_comes_with_its_files_and_its_cost() -> None:
    client, spent = StepClient([answer("  ## Goal\nParser. ")]), Spent()

    found = await summarize(client, spent=spent)

    assert replace(found, seconds=0.0) == Summarized(
        text="## Goal\nParser.",
        details=FileDetails(modified_files=("parser.py",)),
        summarised=4,
        left_out=0,
        model="m",
        seconds=0.0,
    )
    assert spent.usage == Usage(input=100, output=10)
    assert spent.cost == Decimal("0.01")


async def test_the_request_is_one_text_without_tools() -> None:
    client = StepClient([answer("ok")])

    await summarize(client, model=replace(MODEL, max_tokens=9_000))

    [request] = client.requests
    assert prompt_of(request) == (
        "<conversation>\n"
        "[User]: Fix the parser.\n\n"
        '[Assistant tool call]: edit_file(path="parser.py")\n\n'
        "[Tool result]: ok\n\n"
        "[Assistant]: Fixed.\n"
        "</conversation>\n\n" + load("branch_summary")
    )
    assert request.max_tokens == MAX_TOKENS
    assert request.tools == ()
    assert request.thinking is None
    assert [block.text for block in request.system] == [load("summary_system")]


async def test_instructions_are_added_or_take_the_place_of_the_order() -> None:
    client = StepClient([answer("ok")], [answer("ok")])

    await summarize(client, instructions="Only <system>files</system>.")
    await summarize(client, instructions="One line.", replace_instructions=True)

    added, replaced = map(prompt_of, client.requests)
    assert load("branch_summary") in added
    assert added.endswith(
        "<instructions>\nOnly &lt;system>files&lt;/system>.\n</instructions>"
    )
    assert replaced.endswith("</conversation>\n\nOne line.")


async def test_a_transient_failure_is_tried_again_and_charged() -> None:
    client, heard, spent = StepClient(BUSY, [answer("ok")]), Heard(), Spent()

    await summarize(client, heard=heard, spent=spent)

    assert spent.usage == Usage(input=107, output=10)
    assert spent.cost == Decimal("0.02")
    assert len(heard.of(Retry)) == 1
    assert heard.of(TextDelta) == [], "the agent says nothing meanwhile"


@pytest.mark.parametrize(
    ("step", "code", "said_so"),
    [
        ((([answer("half")]), "max_tokens"), "truncated", "cut off"),
        ((([answer("half")]), "refusal"), "empty", "refused"),
        ([answer(" \n")], "empty", "answered nothing"),
        ([thought("hm")], "empty", "answered nothing"),
        ([answer("x" * 5_000)], "too_large", "at most 4,096"),
        (Failure("auth", "no such key"), "api", "no such key"),
    ],
)
async def test_what_is_no_whole_summary_is_a_failure(
    step: Step | tuple[Step, str], code: str, said_so: str
) -> None:
    """pi#7048, pi#9075."""
    with pytest.raises(NavigationMissed, match=said_so) as missed:
        await summarize(StepClient(step))

    assert missed.value.code == code


async def test_what_a_cut_off_answer_cost_is_known() -> None:
    step: tuple[Sequence[FromModel], str] = ([answer("half")], "max_tokens")
    spent = Spent()
    with pytest.raises(NavigationMissed):
        await summarize(StepClient(step), spent=spent)

    assert spent.usage == Usage(input=100, output=10)
    assert spent.cost == Decimal("0.01")


class Stopping(ScriptedClient):
    """Cancels *scope* as soon as it has answered a few words."""

    def __init__(self, scope: trio.CancelScope) -> None:
        super().__init__(Script([say("word " * 100)]), MODEL)
        self._scope = scope

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        def hear(delta: Delta) -> None:
            on_delta(delta)
            self._scope.cancel()

        return await super().ask(request, hear)


async def test_what_a_cancelled_summary_used_is_known() -> None:
    spent = Spent()
    with trio.CancelScope() as scope:
        setup = replace(setup_of(StepClient()), client=Stopping(scope))
        await BranchSummarizer(setup, listen=Heard()).summarize(BRANCH, spent=spent)

    assert scope.cancelled_caught
    assert spent.usage.prompt > 0


async def test_a_branch_that_does_not_fit_is_halved() -> None:
    branch = path_of(*(said("x" * 4_000) for _ in range(30)))
    client = StepClient(OVERFLOW, OVERFLOW, [answer("ok")])

    found = await summarize(client, branch)

    sizes = [len(prompt_of(request)) for request in client.requests]
    assert sizes[0] > 1.8 * sizes[1] > 3 * sizes[2]
    assert found.summarised + found.left_out == 30
    assert 0 < found.summarised < 10


async def test_after_four_times_too_long_it_fails() -> None:
    client = StepClient(*[OVERFLOW] * 5)

    with pytest.raises(NavigationMissed, match="too long") as missed:
        await summarize(client)

    assert missed.value.code == "overflow"
    assert len(client.requests) == 4


@pytest.mark.parametrize(
    ("window", "reserve", "most"),
    [
        (100_000, 16_384, 100_000 - 16_384),
        (None, 16_384, UNKNOWN_WINDOW - 16_384),
        (10_000, 16_384, 2_500),
    ],
)
async def test_the_budget_is_the_window_less_the_reserve(
    window: int | None, reserve: int, most: int
) -> None:
    branch = path_of(*(said("x" * 400) for _ in range(500)))
    client = StepClient([answer("ok")])

    await summarize(
        client, branch, model=replace(MODEL, window=window), reserve_tokens=reserve
    )

    factor = 1.15  # of a model nobody knows; the counter counts bytes
    tokens = len(prompt_of(client.requests[0])) * factor
    assert most * 0.9 < tokens < most + len(load("branch_summary")) * factor + 500


async def test_instructions_take_their_room_from_the_branch() -> None:
    branch = path_of(*(said("x" * 400) for _ in range(500)))
    client = StepClient([answer("ok")], [answer("ok")])
    model = replace(MODEL, window=100_000)

    without = await summarize(client, branch, model=model)
    found = await summarize(client, branch, model=model, instructions="y" * 20_000)

    assert 45 <= without.summarised - found.summarised <= 55  # of 400 bytes each


async def test_of_several_models_the_one_that_counts_most_tokens_is_reckoned_with() -> (
    None
):
    branch = path_of(*(said("x" * 400) for _ in range(500)))
    client = StepClient([answer("ok")], [answer("ok")])
    new = replace(MODEL, id="claude-of-tomorrow", window=100_000)

    async def summarised(*models: Model) -> int:
        summarizer = BranchSummarizer(
            setup_of(client), listen=Heard(), models=list(models)
        )
        return (await summarizer.summarize(branch, spent=Spent())).summarised

    assert await summarised(replace(new, id="m"), new) == await summarised(new)


async def test_one_deadline_holds_for_all_attempts_and_their_waits() -> None:
    """omp#2913."""
    client, spent = StepClient(BUSY, replace(BUSY, retry_after=50.0)), Spent()

    with trio.fail_after(10), pytest.raises(NavigationMissed) as missed:
        await summarize(client, spent=spent, seconds=0.3)

    assert str(missed.value) == "the branch summary was not done after 0.3 seconds"
    assert missed.value.code == "timeout"
    assert spent.usage == Usage(input=7 * len(client.requests))


async def test_a_model_that_fails_is_followed_by_the_next() -> None:
    client = StepClient(Failure("not_found", "no such model"), [answer("ok")])
    heard = Heard()
    models = [replace(MODEL, id="gone"), replace(MODEL, id="there", window=50_000)]
    summarizer = BranchSummarizer(setup_of(client), listen=heard, models=models)

    found = await summarizer.summarize(BRANCH, spent=Spent())

    assert (found.text, found.model) == ("ok", "there")
    assert [request.model for request in client.requests] == ["gone", "there"]
    assert "no such model" in heard.of(Warning)[0].message


async def test_nothing_said_is_nothing_to_summarise() -> None:
    client = StepClient()

    with pytest.raises(NavigationRefused, match="No content to summarize"):
        await summarize(client, path_of(result("1")))

    assert client.requests == []


async def test_a_price_that_is_not_known_is_not_zero() -> None:
    client, spent = StepClient([answer("ok")]), Spent()
    client.usage = None

    await summarize(client, spent=spent)

    assert (spent.usage, spent.cost) == (Usage(), None)
