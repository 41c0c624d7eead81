"""What a client says and is answered, over a real socket."""

import json
import os
import resource
import socket as sockets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from pod.entries import InputEntry, Notice
from pod.events import Closing, Context, Status
from pod.protocol.connection import Connection
from pod.protocol.link import SocketLink
from pod.protocol.mailbox import MOST_WAITING
from pod.protocol.messages import MAX_LINE
from pod.protocol.reading import AnyEvent, Response, read
from pod.protocol.snapshot import (
    InFlight,
    PodState,
    RunningRequest,
    Snapshot,
    WaitingInput,
)
from tests.pod.protocol.stand_in import Raw, greeting, served
from worker.client import TextDelta
from worker.events import RequestStart, Warning


def seqs(events: list[AnyEvent]) -> list[int]:
    return [event.seq for event in events if isinstance(event, Notice)]


async def until(is_so: Callable[[], bool]) -> bool:
    """Wait for what other tasks do; the test's own time is the limit."""
    while not is_so():
        await trio.testing.wait_all_tasks_blocked(0.01)
    return True


async def heard(raw: Raw, count: int) -> list[AnyEvent]:
    return [await raw.event() for _ in range(count)]


async def test_a_connection_begins_with_one_snapshot(short: Path) -> None:
    async with served(short) as pod:
        pod.hub.live(Context(7, None, 8, 9, 10))
        pod.hub.live(RequestStart(2, "m", 3, 4, None))
        pod.hub.live(TextDelta("Hel"))
        pod.hub.live(TextDelta("lo"))
        pod.pod.session.append(InputEntry(input="i", text="more"))
        async with pod.raw() as raw:
            second = await raw.ask('{"id":1,"method":"get_state"}')

    assert isinstance(raw.snapshot, Snapshot)
    state = PodState(
        state="idle",
        session="s",
        seq=1,
        leaf=pod.pod.session.leaf,
        run=None,
        model="m",
        context=Context(7, None, 8, 9, 10),
        cost_usd=0.0,
        in_flight=InFlight(
            request=RunningRequest(2, "m", 1, "Hello"),
            inputs=(WaitingInput("i", "more"),),
        ),
    )
    assert raw.snapshot == greeting(state)
    assert second == (1, True)


async def test_a_line_that_is_no_request_gets_an_error_and_the_next_one_is_heard(
    short: Path,
) -> None:
    async with served(short) as pod, pod.raw() as raw:
        answers = [
            await raw.ask(line)
            for line in (
                "hello",
                '{"id":1,"method":"fly"}',
                '{"id":"a","method":"prompt"}',
                '{"id":2,"method":"get_state"}',
            )
        ]

    assert answers == [
        (None, "invalid_json"),
        (1, "unknown_method"),
        ("a", "invalid_request"),
        (2, True),
    ]


async def test_bytes_that_are_no_text_get_an_error_too(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send(b"\xff\0\xfe\n" + b'{"id":1,"method":"get_state"}\n')

        assert await raw.response() == (None, "invalid_json")
        assert await raw.response() == (1, True)


async def test_a_line_that_is_too_long_is_thrown_away_as_it_comes(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        for _ in range(12):
            await raw.send(b"x" * (MAX_LINE // 4))
        await raw.send(b'\n{"id":1,"method":"get_state"}\n')

        assert await raw.response() == (None, "too_large")
        assert await raw.response() == (1, True)


async def test_only_lf_ends_a_line_and_a_cr_before_it_is_tolerated(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send('{"id":1,"method":"steer","params":{"text":"a\u2028b"}}\r\n')
        await raw.send("\r\n\n  \n")
        await raw.send('{"id":2,"method":"get_state"}\n')
        answers = [await raw.response(), await raw.response()]

    assert answers == [(1, True), (2, True)]
    assert pod.pod.asked == ["steer a\u2028b"]


async def test_requests_of_one_client_begin_in_the_order_they_are_sent(
    short: Path,
) -> None:
    methods = ["pause", "interrupt", "resume", "fork", "set_model", "navigate"]
    params = {"set_model": '{"model":"m"}', "navigate": '{"target":"t"}'}
    lines = [
        f'{{"id":{n},"method":"{method}","params":{params.get(method, "{}")}}}\n'
        for n, method in enumerate(methods * 5)
    ]
    async with served(short) as pod, pod.raw() as raw:
        await raw.send("".join(lines))
        answered = {await raw.response() for _ in lines}

    assert [asked.partition(" ")[0] for asked in pod.pod.asked] == methods * 5
    assert answered == {(n, True) for n in range(len(lines))}


async def test_a_long_request_does_not_hold_up_the_ones_behind_it(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send('{"id":"long","method":"compact"}\n')
        state = await raw.ask('{"id":"short","method":"get_state"}')
        await raw.send('{"id":"end","method":"abort_compaction"}\n')
        rest = {await raw.response(), await raw.response()}

    assert state == ("short", True)
    assert rest == {("long", True), ("end", True)}


async def test_too_many_requests_at_once_are_refused(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        for n in range(64):
            await raw.send(f'{{"id":{n},"method":"compact"}}\n')
        one_more = await raw.ask('{"id":64,"method":"compact"}')
        pod.pod.aborted.set()
        done = {await raw.response() for _ in range(64)}
        after = await raw.ask('{"id":65,"method":"compact"}')

    assert one_more == (64, "too_many_requests")
    assert done == {(n, True) for n in range(64)}
    assert after == (65, True)


async def test_what_was_asked_for_goes_on_without_the_client(short: Path) -> None:
    async with served(short) as pod:
        async with pod.raw() as raw:
            await raw.send('{"id":1,"method":"compact"}\n')
            await raw.ask('{"id":2,"method":"get_state"}')
        async with pod.raw() as other:
            await other.ask('{"id":3,"method":"abort_compaction"}')
        await pod.pod.compacted.wait()


async def test_a_fault_answers_its_request_and_is_told_to_a_person(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        pod.pod.errors["pause"] = ZeroDivisionError("by zero")
        answer = await raw.ask('{"id":1,"method":"pause"}')
        after = await raw.ask('{"id":2,"method":"get_state"}')

    assert (answer, after) == ((1, "internal"), (2, True))
    assert "ZeroDivisionError: by zero" in pod.said[0]


async def test_a_fault_in_one_connection_ends_that_one_alone(short: Path) -> None:
    faults = [ZeroDivisionError("by zero")]

    def greet(state: PodState) -> Snapshot:
        if faults:
            raise faults.pop()
        return greeting(state)

    async with served(short, greet=greet) as pod:
        broken = await trio.open_unix_socket(str(pod.path))
        async with broken:
            nothing = await broken.receive_some()
        async with pod.raw() as raw:
            after = await raw.ask('{"id":1,"method":"get_state"}')

    assert (nothing, after) == (b"", (1, True))
    assert "ZeroDivisionError: by zero" in pod.said[0]


async def test_an_owner_who_does_not_read_its_answers_is_not_read_either(
    short: Path,
) -> None:
    ask = b'{"id":1,"method":"get_entries","params":{"from_seq":1,"limit":20}}\n'
    ours, its = sockets.socketpair()
    async with served(short) as pod, trio.open_nursery() as nursery:
        for _ in range(20):
            pod.pod.session.append(Notice(message="x" * 1_000_000))
        link = SocketLink(trio.socket.from_stdlib_socket(its))
        owner = Connection(pod.server, link, "the owner", owner=True)
        nursery.start_soon(owner.run)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        nursery.start_soon(stream.send_all, ask * 5_000)
        await until(lambda: owner.mailbox.is_full)
        await trio.testing.wait_all_tasks_blocked(0.2)
        waiting = owner.mailbox.waiting
        nursery.cancel_scope.cancel()
    ours.close()

    assert waiting < 2 * MOST_WAITING
    assert pod.said == []


async def test_the_pod_ends_at_once_when_its_owner_is_gone(short: Path) -> None:
    ours, its = sockets.socketpair()
    async with served(short) as pod:
        link = SocketLink(trio.socket.from_stdlib_socket(its))
        owner = Connection(pod.server, link, "the owner", owner=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            async with pod.client() as client:
                await client.prompt("a run that does not end by itself")
            ours.shutdown(sockets.SHUT_RD)  # it still could send
            owner.mailbox.put(b"x\n")
        await pod.over.wait()
        ours.close()

    assert pod.pod.asked[-1] == "shutdown"


async def test_a_subscription_that_fails_leaves_the_one_before_as_it_was(
    short: Path,
) -> None:
    async with served(short) as pod, pod.raw() as raw:
        for _ in range(20):  # more than fits on the way: it is still being replayed
            pod.pod.session.append(Notice(message="x" * 100_000))
        subscribe = '{"id":%d,"method":"subscribe","params":{"from_seq":1}}\n'
        await raw.ask(subscribe % 1)
        (short / "s.jsonl").rename(short / "away")
        await raw.send(subscribe % 2)
        answers: list[Response] = []
        events: list[AnyEvent] = []
        while not answers or len(events) < 20:
            line = await raw.line()
            assert line is not None
            found = read(line)
            if isinstance(found, Response):
                answers.append(found)
            else:
                events.append(found)
        (short / "away").rename(short / "s.jsonl")

    assert [each.error and each.error.code for each in answers] == ["failed"]
    assert seqs(events) == list(range(1, 21))


async def test_without_a_subscription_no_event_comes(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        pod.hub.live(Warning("careful"))

        assert await raw.ask('{"id":1,"method":"get_state"}') == (1, True)


async def test_a_late_listener_hears_what_was_and_what_comes(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        for n in range(5):
            pod.pod.session.append(Notice(message=f"{n}"))
        await raw.ask('{"id":1,"method":"subscribe","params":{"from_seq":3}}')
        events = await heard(raw, 3)
        pod.hub.live(Status("paused"))
        pod.pod.session.append(Notice(message="new"))
        events += await heard(raw, 2)

    assert seqs(events) == [3, 4, 5, 6]
    assert events[3] == Status("paused")


async def test_a_listener_without_a_place_begins_with_what_comes(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        pod.pod.session.append(Notice(message="old"))
        await raw.ask('{"id":1,"method":"subscribe"}')
        pod.pod.session.append(Notice(message="new"))

        assert seqs(await heard(raw, 1)) == [2]


@pytest.mark.parametrize("from_seq", [-1, 3, 9_999])
async def test_a_place_that_is_not_there_is_refused(short: Path, from_seq: int) -> None:
    async with served(short) as pod, pod.raw() as raw:
        pod.pod.session.append(Notice(message="only"))
        params = json.dumps({"from_seq": from_seq})
        answer = await raw.ask(f'{{"id":1,"method":"subscribe","params":{params}}}')

    assert answer == (1, "invalid_request")


async def test_what_cannot_be_subscribed_to_is_named(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send(
            '{"id":1,"method":"subscribe","params":{"from_seq":-3}}\n'
            '{"id":2,"method":"subscribe","params":{"types":["result","compact_dne"]}}\n'
        )
        lines = [await raw.line(), await raw.line()]

    assert [json.loads(line or "")["error"]["message"] for line in lines] == [
        "from_seq is -3; the last event has 0, so it can be 0 to 1",
        "types: there is no event 'compact_dne'; did you mean compact_done?",
    ]


async def test_an_answer_stands_behind_the_events_it_knows_of(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.ask('{"id":1,"method":"subscribe"}')
        for n in range(5):
            pod.pod.session.append(Notice(message=f"{n}"))
            await raw.send(f'{{"id":{n},"method":"get_state"}}\n')
            event, answer = json.loads(await raw.line() or ""), await raw.line()
            state = json.loads(answer or "")["data"]

            assert (event["seq"], state["seq"]) == (n + 1, n + 1)


async def test_refused_requests_are_not_under_way_for_ever(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.ask('{"id":1,"method":"prompt","params":{"text":"go"}}')
        await raw.ask('{"id":1,"method":"shutdown"}')
        codes = [await raw.ask('{"id":2,"method":"resume"}') for _ in range(70)]
        pod.pod.finish()

    assert set(codes) == {(2, "shutting_down")}


async def test_no_event_is_missed_or_comes_twice_while_a_listener_catches_up(
    short: Path,
) -> None:
    async with served(short) as pod:
        for _ in range(3_000):
            pod.pod.session.append(Notice(message="x" * 300))
        async with pod.raw() as raw, trio.open_nursery() as nursery:

            async def go_on() -> None:
                for _ in range(300):
                    pod.pod.session.append(Notice(message="y"))
                    await trio.lowlevel.checkpoint()

            await raw.send('{"id":1,"method":"subscribe","params":{"from_seq":0}}\n')
            nursery.start_soon(go_on)
            await raw.response()
            events = await heard(raw, 3_300)

    assert seqs(events) == list(range(1, 3_301))


async def test_subscribing_again_begins_again(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        pod.pod.session.append(Notice(message="a"), Notice(message="b"))
        await raw.ask('{"id":1,"method":"subscribe","params":{"from_seq":1}}')
        first = await heard(raw, 2)
        await raw.ask(
            '{"id":2,"method":"subscribe","params":{"from_seq":2,"types":["notice"]}}'
        )
        pod.hub.live(Warning("not wanted any more"))
        pod.pod.session.append(Notice(message="c"))
        again = await heard(raw, 2)

    assert (seqs(first), seqs(again)) == ([1, 2], [2, 3])


async def test_subscribing_anew_in_the_middle_of_a_replay_ends_that_one(
    short: Path,
) -> None:
    async with served(short) as pod:
        for _ in range(3_000):
            pod.pod.session.append(Notice(message="x" * 300))
        async with pod.raw() as raw:
            subscribe = '{"id":%d,"method":"subscribe","params":{"from_seq":%d}}\n'
            await raw.send(subscribe % (1, 1) + subscribe % (2, 2_999))
            lines: list[bytes] = []
            while not lines or not lines[-1].startswith(b'{"id":2'):
                line = await raw.line()
                assert line is not None
                lines.append(line)
            events = await heard(raw, 2)

    assert seqs(events) == [2_999, 3_000]
    assert len(lines) < 3_000


async def test_entries_are_given_in_pages(short: Path) -> None:
    async with served(short) as pod, pod.client() as client:
        for n in range(5):
            pod.pod.session.append(Notice(message=f"{n}"))
        pages = [await client.entries(from_seq, 2) for from_seq in (0, 3, 5, 6)]

    assert [seqs(page) for page in pages] == [[1, 2], [3, 4], [5], []]


async def test_a_page_of_entries_says_where_the_next_one_begins(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        for _ in range(4):
            pod.pod.session.append(Notice(message="x" * 600_000))
        await raw.send('{"id":1,"method":"get_entries"}\n')
        line = await raw.line()
        await raw.send('{"id":2,"method":"get_entries","params":{"from_seq":3}}\n')
        last = await raw.line()

    assert line is not None
    assert last is not None
    found = [json.loads(each)["data"] for each in (line, last)]
    assert [[e["seq"] for e in each["events"]] for each in found] == [[1, 2], [3, 4]]
    assert [each["next_seq"] for each in found] == [3, None]


async def test_a_client_that_sends_no_more_is_answered_and_its_line_needs_no_end(
    short: Path,
) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send('{"id":1,"method":"compact"}\n{"id":2,"method":"get_state"}')
        raw.socket.shutdown(trio.socket.SHUT_WR)
        first = await raw.response()
        pod.pod.aborted.set()
        second = await raw.response()
        end = await raw.line()

    assert (first, second, end) == ((2, True), (1, True), None)


async def test_a_listener_that_sends_no_more_still_hears(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send('{"id":1,"method":"subscribe"}\n')
        raw.socket.shutdown(trio.socket.SHUT_WR)
        await raw.response()
        pod.pod.session.append(Notice(message="a"))

        assert seqs(await heard(raw, 1)) == [1]


async def test_clients_that_have_gone_leave_nothing_behind(short: Path) -> None:
    async with served(short) as pod:
        for _ in range(20):
            async with pod.raw() as raw:
                await raw.ask('{"id":1,"method":"subscribe"}')
        assert await until(lambda: len(pod.hub) == 0)


async def test_a_client_that_never_reads_is_dropped_and_the_others_are_warned(
    short: Path,
) -> None:
    async with served(short) as pod, pod.raw() as slow, pod.raw() as quick:
        await slow.ask('{"id":1,"method":"subscribe"}')
        await quick.ask('{"id":1,"method":"subscribe","params":{"types":["warning"]}}')
        big = Notice(message="x" * 1_000_000)
        for _ in range(20):
            pod.pod.session.append(big)
            await trio.testing.wait_all_tasks_blocked()
        warning = await quick.event()
        first = await slow.line()
        rest = []
        while (line := await slow.line()) is not None:
            rest.append(line)

    why = "client 1 was dropped: it reads too slowly"
    assert warning == Warning(why)
    assert pod.said == [why]
    assert first is not None
    assert b'"seq":1,' in first
    last = msgspec.json.decode(rest[-1], type=dict[str, object])
    assert last["type"] == "dropped"
    assert len(rest) < 20


async def test_a_client_that_does_not_read_its_answers_is_dropped(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        for _ in range(20):
            pod.pod.session.append(Notice(message="x" * 1_000_000))
        ask = '{"id":%d,"method":"get_entries","params":{"from_seq":%d,"limit":1}}\n'
        with suppress(BrokenPipeError):
            for n in range(1_000):
                await raw.send(ask % (n, n % 20 + 1))

    assert pod.said[0] == "client 1 was dropped: it does not read its answers"


async def test_shutting_down_ends_the_pod_and_says_so_to_all(short: Path) -> None:
    async with served(short) as pod, pod.raw() as one, pod.raw() as other:
        await other.ask('{"id":1,"method":"subscribe","params":{"types":[]}}')
        answer = await one.ask('{"id":1,"method":"shutdown","params":{"now":true}}')
        await pod.over.wait()
        ends = [await one.event(), await other.event()]
        closed = [await one.line(), await other.line()]

    assert answer == (1, True)
    assert ends == [Closing("shutdown"), Closing("shutdown")]
    assert closed == [None, None]
    assert pod.pod.asked == ["shutdown"]


async def test_a_pod_ends_when_its_run_is_over_and_takes_no_prompt_before(
    short: Path,
) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.ask('{"id":1,"method":"prompt","params":{"text":"go"}}')
        await raw.ask('{"id":2,"method":"shutdown"}')
        prompt = await raw.ask('{"id":3,"method":"prompt","params":{"text":"go"}}')
        steer = await raw.ask('{"id":4,"method":"steer","params":{"text":"go"}}')
        assert "shutdown" not in pod.pod.asked
        pod.pod.finish()
        await pod.over.wait()

    assert (prompt, steer) == ((3, "shutting_down"), (4, True))
    assert pod.pod.asked[-1] == "shutdown"


async def test_it_can_be_hurried(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.ask('{"id":1,"method":"prompt","params":{"text":"go"}}')
        await raw.ask('{"id":2,"method":"shutdown"}')
        await raw.ask('{"id":3,"method":"shutdown","params":{"now":true}}')
        await pod.over.wait()


async def test_requests_under_way_are_told_of_the_end(short: Path) -> None:
    async with served(short) as pod, pod.raw() as raw:
        await raw.send('{"id":"c","method":"compact"}\n')
        await raw.ask('{"id":2,"method":"shutdown","params":{"now":true}}')

        assert await raw.response() == ("c", "shutting_down")


async def test_more_clients_than_there_may_be_are_told_so(short: Path) -> None:
    async with served(short) as pod:
        streams = [await trio.open_unix_socket(str(pod.path)) for _ in range(256)]
        for stream in streams:
            await stream.receive_some(1)
        more = await trio.open_unix_socket(str(pod.path))
        answer = await Raw(more.socket).response()
        for stream in (*streams, more):
            await stream.aclose()

    assert answer == (None, "too_many_requests")


async def test_a_permission_that_nobody_asked_for_cannot_be_answered(
    short: Path,
) -> None:
    async with served(short) as pod, pod.raw() as raw:
        answer = await raw.ask(
            '{"id":1,"method":"answer_permission",'
            '"params":{"call_id":"c","allow":true}}'
        )

    assert answer == (1, "not_found")


def highest_descriptor() -> int:
    return max(int(path.name) for path in Path("/dev/fd").iterdir())


async def test_without_descriptors_clients_wait_and_it_is_said(short: Path) -> None:
    async with served(short) as pod:
        ours = sockets.socket(sockets.AF_UNIX)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest_descriptor(), hard))
        taken: list[int] = []
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.dup(0))
            ours.connect(str(pod.path))
            await until(lambda: bool(pod.said))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in taken:
                os.close(fd)
        ours.settimeout(10)
        first = await trio.to_thread.run_sync(ours.recv, 100)
        ours.close()

    assert pod.said == ["a client could not be accepted: Too many open files"]
    assert first.startswith(b'{"v":1,')
