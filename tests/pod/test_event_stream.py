"""What a program that reads late gets of a run, and what waits for it meanwhile."""

from pathlib import Path
from typing import Literal

import pytest
import trio
from hypothesis import given, settings, strategies as st

from pod.entries import AnyEntry, Notice, RunEnd
from pod.errors import LogFailed
from pod.event_stream import EventStream
from pod.events import Event
from pod.protocol.replay import BLOCK
from tests.pod.protocol.stand_in import opened
from worker.client import TextDelta

MOST = 4
Step = Literal["durable", "large", "live", "read", "close"]
STEPS: list[Step] = ["durable", "large", "live", "read", "close"]


def end(seq: int = 0) -> RunEnd:
    return RunEnd(
        outcome="finished", reason="done", exit_code=0, text="", run="r", seq=seq
    )


@settings(max_examples=150)
@given(st.lists(st.sampled_from(STEPS), max_size=60), st.booleans())
def test_whenever_it_is_read_it_gives_all_that_is_durable_and_holds_little(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], is_end_written: bool
) -> None:
    log = tmp_path_factory.mktemp("stream") / "s.jsonl"
    told: list[Event] = []
    heard: list[Event] = []

    async def play() -> None:
        with opened(log) as session:
            stream = EventStream(log, session.id, most=MOST)
            stream.begin("r")

            def tell(event: Event) -> None:
                told.append(event)
                stream.put(event)

            for number, step in enumerate(steps):
                match step:
                    case "durable" | "large":
                        size = BLOCK if step == "large" else 1
                        (entry,) = session.append(Notice(message="x" * size))
                        tell(entry)
                    case "live":
                        tell(TextDelta(str(number)))
                    case "close":
                        stream.close()
                    case "read" if len(told) > len(heard) + stream.left_out:
                        heard.append(await anext(stream))
                    case "read":
                        pass
            last = session.append(end()) if is_end_written else [end()]
            tell(last[0])
            heard.extend([event async for event in stream])
            assert stream.result == heard[-1]
            assert stream.left_out == len(told) - len(heard)
            stream.close()

    trio.run(play)

    durable = [event for event in told if isinstance(event, AnyEntry)]
    assert [event for event in heard if isinstance(event, AnyEntry)] == durable
    rest = iter(told)
    assert all(event in rest for event in heard)  # in their order, none twice


async def test_no_more_than_may_wait_is_kept_in_memory(tmp_path: Path) -> None:
    with opened(tmp_path / "s.jsonl") as session:
        stream = EventStream(tmp_path / "s.jsonl", session.id, most=MOST)
        stream.begin("r")
        for entry in session.append(*(Notice(message=str(n)) for n in range(99))):
            stream.put(entry)
            stream.put(TextDelta("x"))
        waiting = stream.waiting
        stream.put(*session.append(end()))
        heard = [event async for event in stream]

    assert waiting == MOST
    assert [e.message for e in heard if isinstance(e, Notice)] == list(
        map(str, range(99))
    )
    assert len(heard) + stream.left_out == 2 * 99 + 1


async def test_without_a_log_all_that_is_durable_waits() -> None:
    stream = EventStream(None, "s", most=MOST)
    stream.begin("r")
    notices = [Notice(message=str(n), seq=n) for n in range(1, 10)]

    events: list[Event] = [*notices, TextDelta("late"), end(seq=10)]
    for event in events:
        stream.put(event)

    assert [event async for event in stream] == [*notices, end(seq=10)]
    assert stream.left_out == 1


async def test_a_run_that_is_over_before_it_is_named_is_known_to_be(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "s.jsonl") as session:
        stream = EventStream(tmp_path / "s.jsonl", session.id, most=0)
        stream.put(*session.append(Notice(message="one")))
        stream.put(*session.append(end()))

        stream.begin("r")

        assert stream.is_over
        assert [type(event) async for event in stream] == [Notice, RunEnd]


async def test_a_log_that_is_gone_meanwhile_is_said(tmp_path: Path) -> None:
    log = tmp_path / "s.jsonl"
    with opened(log) as session:
        stream = EventStream(log, session.id, most=0)
        (entry,) = session.append(Notice(message="one"))
        stream.put(entry)
        log.unlink()

        with pytest.raises(LogFailed):
            await anext(stream)
