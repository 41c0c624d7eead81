"""The Python client, against a server that does what the test says."""

from pathlib import Path

import pytest
import trio
import trio.testing

from pod.entries import Notice
from pod.events import Closing
from pod.protocol import connect
from pod.protocol.answers import Compacted, Navigated
from pod.protocol.client import (
    Disconnected,
    NotThere,
    ReadTooSlowly,
    RequestFailed,
)
from pod.protocol.messages import MAX_LINE
from tests.pod.protocol.stand_in import served


async def test_each_request_is_a_method(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        run = await client.prompt("go")
        pod.pod.finish()
        await client.steer("left")
        await client.follow_up("then")
        await client.interrupt()
        await client.pause()
        resumed = await client.resume()
        pod.pod.aborted.set()
        compacted = await client.compact("short")
        aborted = await client.abort_compaction()
        moved = await client.navigate("t", replace_instructions=True)
        forked = await client.fork("e")
        await client.set_model("m2")
        state = await client.state()

    assert pod.pod.asked == [
        "prompt go",
        "steer left",
        "follow_up then",
        "interrupt",
        "pause",
        "resume",
        "compact short",
        "abort_compaction",
        "navigate t anew",
        "fork e",
        "set_model m2",
    ]
    assert (run, resumed, aborted, forked) == ("r1", "resumed", True, "forked")
    assert compacted == Compacted("skipped", reason="aborted", message="no")
    assert moved == Navigated("old", "t", "text")
    assert (state.state, state.seq) == ("idle", 6)


async def test_several_tasks_may_ask_at_once(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.compact)
            for _ in range(5):
                nursery.start_soon(client.state)
            await trio.testing.wait_all_tasks_blocked()
            await client.abort_compaction()


async def test_a_cancelled_request_does_not_confuse_the_next_one(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        with trio.move_on_after(0.1):
            await client.compact()
        pod.pod.aborted.set()
        state = await client.state()

    assert state.state == "idle"


async def test_a_request_that_is_too_long_for_a_pod_is_refused_here(
    short: Path,
) -> None:
    async with served(short) as pod, pod.client() as client:
        with pytest.raises(RequestFailed, match="at most 4,194,304 bytes") as caught:
            await client.steer("x" * MAX_LINE)
        await client.steer("y" * (MAX_LINE - 100))

    assert caught.value.code == "too_large"
    assert [len(asked) for asked in pod.pod.asked] == [len("steer ") + MAX_LINE - 100]


async def test_what_is_refused_says_its_code(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        with pytest.raises(RequestFailed, match="an empty text") as caught:
            await client.prompt(" ")

    assert caught.value.code == "invalid_request"


async def test_events_are_the_structs_they_are_and_end_with_the_pod(
    short: Path,
) -> None:
    async with served(short) as pod, pod.client() as client:
        pod.pod.session.append(Notice(message="old"))
        events = client.events(from_seq=0)
        await events.begin()
        pod.pod.session.append(Notice(message="new"))
        await client.shutdown(now=True)
        heard = [event async for event in events]

    messages = [event.message for event in heard if isinstance(event, Notice)]
    assert messages == ["old", "new"]
    assert heard[-1] == Closing("shutdown")
    assert events.seq == 2


async def test_who_reads_too_slowly_is_told_where_to_go_on(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        events = client.events(from_seq=0)
        await events.begin()
        for _ in range(20):
            pod.pod.session.append(Notice(message="x" * 1_000_000))
            await trio.testing.wait_all_tasks_blocked()
        heard = []
        with pytest.raises(ReadTooSlowly) as caught:
            heard += [event.seq async for event in events if isinstance(event, Notice)]
        rest = client.events(from_seq=caught.value.next_seq)
        first = await anext(rest)

    assert isinstance(first, Notice)
    assert first.seq == events.seq + 1 == caught.value.next_seq


async def test_a_pod_that_is_gone_disconnects(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        events = client.events()
        await events.begin()
        await client.shutdown(now=True)
        await pod.over.wait()
        with pytest.raises(
            Disconnected, match=r"has closed the connection|Broken pipe"
        ):
            await client.state()


async def test_where_no_pod_listens_is_said(short: Path) -> None:
    with pytest.raises(NotThere, match=r"no\.sock: No such file or directory$"):
        async with connect(short / "no.sock"):
            pass


async def test_what_is_no_pod_is_said(short: Path) -> None:
    with trio.socket.socket(trio.socket.AF_UNIX) as socket:
        await socket.bind(str(short / "other.sock"))
        socket.listen(1)
        async with trio.open_nursery() as nursery:

            async def greet() -> None:
                client, _ = await socket.accept()
                with client:
                    await client.send(b"220 mail.example ESMTP\r\n")

            nursery.start_soon(greet)
            with pytest.raises(Disconnected, match="no line of the protocol"):
                async with connect(short / "other.sock"):
                    pass
