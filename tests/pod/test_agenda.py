"""What a Pod that stays does next."""

import pytest

from pod.agenda import Agenda, Job, is_paused
from pod.entries import InputEntry, RunEnd
from pod.errors import Busy

GO = InputEntry(input="go", text="go")
LATER = InputEntry(input="later", text="later", follow_up=True)
LAST = InputEntry(input="last", text="last", follow_up=True)
DONE = RunEnd(outcome="finished", reason="done", exit_code=0)
FULL = RunEnd(outcome="failed", reason="disk_full", exit_code=1, interrupted=True)
PAUSED = RunEnd(outcome="yielded", reason="paused", exit_code=0, interrupted=True)


async def nothing() -> None:
    pass


def job() -> Job:
    return Job("navigation", nothing, lambda error: None)


def agenda(*, is_paused: bool = False) -> Agenda:
    return Agenda(is_paused=is_paused)


def test_what_somebody_asked_for_comes_first_then_what_a_run_left_then_runs() -> None:
    one = agenda()
    run = one.begin_run([GO])
    one.end_run(run, DONE, [LATER], is_fenced=False)
    one.job = job()

    assert one.next([LATER]) == "job"
    one.begin_job()
    assert one.next([LATER]) == "after_run"
    one.begin_after_run()
    assert one.next([LATER]) == "run"
    assert one.begin_run([LATER]).due == (LATER,)
    assert one.next([]) is None


def test_all_input_goes_at_once_and_follow_ups_one_by_one_behind_it() -> None:
    one = agenda()

    assert one.begin_run([LATER, GO, LAST]).due == (GO,)
    first = one.begin_run([LATER, LAST])

    assert (first.due, first.follow_ups) == ((LATER,), ["later"])


def test_while_a_turn_is_paused_only_who_asks_for_a_run_gets_one() -> None:
    one = agenda(is_paused=True)

    assert one.next([GO, LATER]) is None
    one.want_run(resumes=True)
    assert one.next([GO, LATER]) == "run"
    assert one.begin_run([LATER]).due == ()
    assert not one.is_paused


def test_what_could_not_be_taken_in_is_not_tried_again_by_itself() -> None:
    one = agenda()
    waiting = [GO, LATER]

    for _ in range(2):
        assert one.next(waiting) == "run"
        run = one.begin_run(waiting)
        one.end_run(run, FULL, waiting, is_fenced=False)
    assert one.next(waiting) is None

    one.let_go()
    assert one.next(waiting) == "run"


def test_a_follow_up_of_a_failed_run_is_run_all_the_same() -> None:
    one = agenda()
    run = one.begin_run([GO, LATER])
    one.end_run(run, FULL, [LATER], is_fenced=False)

    assert one.next([LATER]) == "run"
    assert one.begin_run([LATER]).due == (LATER,)


def test_the_model_is_asked_to_continue_unless_something_else_comes_first() -> None:
    one = agenda()
    one.want_continuation()
    assert one.next([]) == "run"
    assert one.begin_run([]).is_continuation
    assert one.has_continued

    one.want_continuation()
    assert not one.begin_run([GO]).is_continuation
    assert not one.has_continued
    assert one.next([]) is None


def test_behind_an_interrupt_nothing_begins_by_itself() -> None:
    one = agenda()
    one.end_run(one.begin_run([GO]), DONE, [], is_fenced=True)
    assert one.next([]) is None

    one.want_continuation()
    one.begin_nothing()
    assert one.next([]) is None


def test_a_second_job_is_refused_before_the_first_begins_and_while_it_is_done() -> None:
    one = agenda()
    one.refuse_busy()
    one.job = job()
    with pytest.raises(Busy, match="a navigation is under way"):
        one.refuse_busy()
    one.begin_job()
    with pytest.raises(Busy):
        one.refuse_busy()


def test_a_pause_by_the_provider_is_none_by_a_person() -> None:
    by_provider = RunEnd(
        outcome="failed", reason="paused", exit_code=1, interrupted=True
    )

    assert is_paused(PAUSED)
    assert [is_paused(end) for end in (None, DONE, by_provider)] == [False] * 3
