"""The scripted model as one that is asked once for a summary."""

from pod.survey import survey
from tests.makers import call, result, said, user
from worker.api import Message, Request, Text
from worker.compact.conversation import conversation
from worker.compact.summary_prompts import (
    Brief,
    Kind,
    Sizes,
    part_prompt,
    problem_of,
    short_prompt,
    shorten_prompt,
    title,
)
from worker.items import AssistantText

RECORD = conversation(
    [
        user("Survey the folder."),
        call("1", name="read_file", arguments='{"path":"a.py"}'),
        result("1"),
        said("Done."),
    ]
)
SIZES = Sizes(2_000, 4_000)


def answer(prompt: str) -> str:
    request = Request(
        model="survey",
        max_tokens=100,
        system=(),
        messages=(Message("user", (Text(prompt),)),),
    )
    [item] = survey().reply(request).items
    assert isinstance(item, AssistantText)
    return item.text


def test_it_writes_the_headings_that_each_order_asks_for() -> None:
    kinds: tuple[Kind, ...] = ("history", "turn_prefix")
    for kind in kinds:
        for previous in ("", "Before."):
            text = answer(part_prompt(kind, RECORD, previous, Brief(), SIZES))

            assert problem_of(kind, text, Brief()) is None
            assert (
                "1 message of the user's, 1 tool call, 0 of them with an error" in text
            )
            assert "`a.py`" in text


def test_it_quotes_the_user_word_for_word() -> None:
    text = answer(part_prompt("history", RECORD, "", Brief(), SIZES))

    assert "- “Survey the folder.” — still holds" in text


def test_it_gives_a_title_and_a_shorter_text_where_they_are_asked_for() -> None:
    short = answer(short_prompt("## Goal\nPorts.", Brief()))
    shorter = answer(shorten_prompt("## Goal\nPorts.", 9_000, Brief(), SIZES))

    assert title(short) == short == "A survey of files, under way"
    assert shorter == "## Goal\nPorts."


def test_other_requests_without_tools_are_the_survey_s() -> None:
    assert answer("Survey this.").startswith("A survey needs these tools, too: ")
