"""Hooks that hear of a navigation, and have a say in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pod.entries import (
    FileDetails,
)
from pod.events import NavigateStart
from pod.hooks.answers import BeforeTreeAnswer, HookSummary
from pod.hooks.hooks import Hook, Hooks
from pod.hooks.payloads import AnyPayload, BeforeTree, Navigated
from pod.navigation import Navigation
from tests.pod.navigations import Case, Fake
from worker.events import Warning


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path / "s.jsonl")
    yield case
    case.session.close()


def hooks(answer: object, heard: list[AnyPayload] | None = None) -> Hooks:
    """Return a hook of both events; *answer* is for the one before."""

    async def ask(payload: AnyPayload) -> object:
        if heard is not None:
            heard.append(payload)
        if isinstance(payload, Navigated):
            return None
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Hooks(
        [
            Hook(event="session_before_tree", name="h", ask=ask),
            Hook(event="session_tree", name="h", ask=ask),
        ]
    )


async def test_hooks_hear_of_a_navigation_before_and_after(case: Case) -> None:
    heard: list[AnyPayload] = []

    found = await case.go(
        case.q2,
        summarize=True,
        instructions="i",
        label="l",
        summarizer=Fake(),
        hooks=hooks(None, heard),
    )

    assert heard == [
        BeforeTree(
            session="s1",
            target=case.q2,
            old_leaf=case.a3,
            common_ancestor=case.a1,
            entries=(case.q3, case.a3),
            wants_summary=True,
            instructions="i",
            replace_instructions=False,
            label="l",
        ),
        Navigated(
            session="s1",
            old_leaf=case.a3,
            new_leaf=found.new_leaf,
            entry=found.entry,
            from_hook=False,
        ),
    ]


async def test_a_hook_can_cancel(case: Case) -> None:
    heard: list[AnyPayload] = []
    answer = BeforeTreeAnswer(cancel=True, message="not now")

    found = await case.go(
        case.a2, summarize=True, summarizer=Fake(), hooks=hooks(answer, heard)
    )

    assert found == Navigation(case.a3, case.a3, cancelled=True, message="not now")
    assert case.session.leaf == case.a3
    assert [type(payload) for payload in heard] == [BeforeTree]


async def test_a_hook_s_summary_is_used_where_one_was_asked_for(case: Case) -> None:
    fake = Fake()
    details = FileDetails(read_files=("r",))
    answer = BeforeTreeAnswer(summary=HookSummary(text="By hook.", details=details))

    found = await case.go(case.a2, summarize=True, summarizer=fake, hooks=hooks(answer))

    assert fake.asked == []
    assert found.entry is not None
    assert (found.entry.summary, found.entry.details) == ("By hook.", details)
    assert found.entry.from_hook


async def test_a_hook_s_summary_is_not_used_where_none_was_asked_for(
    case: Case,
) -> None:
    answer = BeforeTreeAnswer(summary=HookSummary(text="By hook."))

    found = await case.go(case.a2, hooks=hooks(answer))

    assert found == Navigation(case.a3, case.a2)


@pytest.mark.parametrize("text", [" \n", "x" * 64_001])
async def test_a_hook_s_summary_that_cannot_be_used_is_told_and_replaced(
    case: Case, text: str
) -> None:
    fake = Fake()
    answer = BeforeTreeAnswer(summary=HookSummary(text=text))

    found = await case.go(case.a2, summarize=True, summarizer=fake, hooks=hooks(answer))

    assert len(fake.asked) == 1
    assert found.entry is not None
    assert not found.entry.from_hook
    assert [type(event) for event in case.told] == [Warning, NavigateStart]


async def test_a_hook_that_throws_changes_nothing(case: Case) -> None:
    fake = Fake()

    found = await case.go(
        case.a2, summarize=True, summarizer=fake, hooks=hooks(ValueError("boo"))
    )

    assert len(fake.asked) == 1
    assert found.new_leaf == case.session.leaf != case.a3


async def test_a_hook_can_set_the_instructions_and_the_label(case: Case) -> None:
    fake = Fake()
    answer = BeforeTreeAnswer(
        instructions="only files", replace_instructions=True, label="by hook"
    )

    found = await case.go(
        case.a2,
        summarize=True,
        instructions="asked",
        summarizer=fake,
        hooks=hooks(answer),
    )

    assert fake.asked[0][1:] == ("only files", True)
    assert found.entry is not None
    assert case.session.tree.labels[found.entry.id].label == "by hook"
