"""Who gets which event, and what becomes of those who do not read."""

import inspect

import msgspec

from pod.entries import Notice, RunStart
from pod.events import Status
from pod.protocol.hub import Hub, Listener, Wanted
from pod.protocol.mailbox import PIECE, Mailbox
from pod.protocol.snapshot import Following
from worker.client import TextDelta
from worker.events import Warning

AT = "2026-01-01T00:00:00.000Z"


class Heard(msgspec.Struct, frozen=True):
    type: str
    seq: int | None = None
    message: str = ""
    text: str = ""


def hub(warned: list[str] | None = None) -> Hub:
    return Hub(
        Following(session="s", seq=0, model="m", leaf=None, inputs=()),
        leaf=lambda: None,
        warn=(warned if warned is not None else []).append,
        clock=lambda: AT,
    )


def listener(most: int = 1_000, wanted: Wanted = Wanted()) -> Listener:  # noqa: B008  frozen
    made = Listener("somebody", Mailbox(most=most))
    made.wanted = wanted
    return made


def join(publisher: Hub, *listeners: Listener) -> None:
    for each in listeners:
        publisher.join(each)
        publisher.hear(each, each.wanted)


def waiting(publisher: Hub, of: Listener) -> list[Heard]:
    publisher.flush()
    lines = []
    while text := of.mailbox.take():
        lines += text.splitlines()
        of.mailbox.sent()
    return [msgspec.json.decode(line, type=Heard) for line in lines]


def notice(seq: int, message: str = "n") -> Notice:
    return Notice(seq=seq, id=f"e{seq}", at=AT, message=message)


def test_no_method_of_the_publisher_can_wait() -> None:
    functions = [
        member
        for kind in (Hub, Listener)
        for _, member in inspect.getmembers(kind, inspect.isfunction)
    ]

    waits = [each.__qualname__ for each in functions if _can_wait(each)]

    assert len(functions) > 8
    assert waits == []


def _can_wait(function: object) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def test_every_listener_gets_every_event_in_its_order() -> None:
    publisher, one, other = hub(), listener(), listener()
    join(publisher, one)
    join(publisher, other)

    publisher.entry(notice(1))
    publisher.live(Warning("careful"))
    publisher.entry(notice(2))

    heard = [Heard("notice", 1, "n"), Heard("warning", None, "careful")]
    heard.append(Heard("notice", 2, "n"))
    assert waiting(publisher, one) == waiting(publisher, other) == heard


def test_listeners_share_one_piece_of_lines() -> None:
    publisher, one, other = hub(), listener(), listener()
    join(publisher, one)
    join(publisher, other)

    publisher.entry(notice(1, "x" * 500))
    publisher.entry(notice(2, "x" * 500))
    publisher.flush()

    assert one.mailbox._lines[0] is other.mailbox._lines[0]


def test_deltas_come_to_those_alone_who_ask_for_them() -> None:
    publisher = hub()
    plain, partial = listener(), listener(wanted=Wanted(partial=True))
    named = listener(wanted=Wanted(frozenset({"text_delta"})))
    for each in (plain, partial, named):
        join(publisher, each)

    publisher.live(TextDelta("he"))
    publisher.live(Warning("careful"))

    delta, warning = Heard("text_delta", text="he"), Heard("warning", None, "careful")
    assert waiting(publisher, plain) == [warning]
    assert waiting(publisher, partial) == [delta, warning]
    assert waiting(publisher, named) == [delta]


def test_types_keep_all_others_back() -> None:
    publisher, only = hub(), listener(wanted=Wanted(frozenset({"run_start"})))
    join(publisher, only)

    publisher.entry(notice(1))
    publisher.entry(RunStart(seq=2, id="e2", at=AT, run="r", model="m"))

    assert waiting(publisher, only) == [Heard("run_start", 2)]


def test_a_slow_listener_is_dropped_with_a_last_line_and_the_others_are_warned() -> (
    None
):
    warned: list[str] = []
    publisher, slow, quick = hub(warned), listener(most=300), listener(most=10_000)
    join(publisher, slow)
    join(publisher, quick)

    for seq in range(1, 5):
        publisher.entry(notice(seq, "x" * 100))
        publisher.flush()

    why = "somebody was dropped: it reads too slowly"
    last = "dropped: it reads too slowly; connect again and go on behind the last seq"
    assert waiting(publisher, slow) == [Heard("dropped", None, last)]
    assert [each.seq for each in waiting(publisher, quick)] == [1, 2, None, 3, 4]
    assert warned == [why]
    assert (len(publisher), slow.mailbox.is_closed) == (1, True)


def test_a_warning_that_is_too_much_for_the_next_one_drops_that_one_too() -> None:
    warned: list[str] = []
    publisher = hub(warned)
    slow = [listener(most=300) for _ in range(50)]
    for each in slow:
        join(publisher, each)

    for seq in (1, 2):
        publisher.entry(notice(seq, "x" * 100))
        publisher.flush()
    publisher.flush()

    assert len(publisher) == 0
    assert len(warned) == 50


def test_one_long_line_is_no_slowness() -> None:
    publisher, one = hub(), listener(most=100)
    join(publisher, one)

    publisher.entry(notice(1, "x" * 10_000))

    assert [each.seq for each in waiting(publisher, one)] == [1]
    assert len(publisher) == 1


def test_what_was_taken_and_is_not_sent_still_counts() -> None:
    publisher, slow = hub(), listener(most=300)
    join(publisher, slow)

    publisher.entry(notice(1, "x" * 150))
    publisher.flush()
    taken = slow.mailbox.take()
    publisher.entry(notice(2, "x" * 150))
    publisher.flush()

    assert taken.count(b"\n") == 1
    assert slow.mailbox.is_closed


def test_a_patient_listener_loses_live_events_alone_and_is_never_dropped() -> None:
    publisher, owner = hub(), listener(most=300)
    owner.is_patient = True
    join(publisher, owner)

    for seq in range(1, 5):
        publisher.entry(notice(seq, "x" * 150))
        publisher.flush()
        publisher.live(Status("running"))
        publisher.flush()

    assert [each.seq or each.type for each in waiting(publisher, owner)] == [
        1,
        "status",
        2,
        3,
        4,
    ]
    assert len(publisher) == 1


def test_a_listener_that_reads_the_log_is_given_nothing_beside_it() -> None:
    publisher, late, there = hub(), listener(), listener()
    join(publisher, late, there)
    publisher.mute(late)

    publisher.entry(notice(1))
    publisher.hear(late, late.wanted)
    publisher.entry(notice(2))

    assert [each.seq for each in waiting(publisher, late)] == [2]
    assert [each.seq for each in waiting(publisher, there)] == [1, 2]


def test_who_goes_or_wants_something_else_gets_what_was_gathered_before() -> None:
    publisher, leaves, changes = hub(), listener(), listener()
    join(publisher, leaves, changes)

    publisher.entry(notice(1))
    publisher.leave(leaves)
    publisher.entry(notice(2))
    publisher.hear(changes, Wanted(frozenset({"warning"})))
    publisher.entry(notice(3))
    publisher.live(Warning("careful"))

    assert [each.seq for each in waiting(publisher, leaves)] == [1]
    assert [each.seq or each.type for each in waiting(publisher, changes)] == [
        1,
        2,
        "warning",
    ]


def test_who_comes_when_all_who_heard_the_same_are_dropped_hears() -> None:
    publisher, slow, late = hub(), listener(most=300), listener()
    join(publisher, slow)
    publisher.entry(notice(1, "x" * 300))
    publisher.flush()
    publisher.entry(notice(2, "x" * 300))

    join(publisher, late)
    publisher.entry(notice(3))

    assert slow.mailbox.is_closed
    assert [each.seq for each in waiting(publisher, late)] == [3]


def test_no_more_is_gathered_than_is_written_at_once() -> None:
    publisher, one = hub(), listener(most=10 * PIECE)
    join(publisher, one)

    for seq in range(1, 4):
        publisher.entry(notice(seq, "x" * (PIECE // 2)))

    assert one.mailbox.waiting > PIECE


def test_a_mailbox_gives_pieces_and_never_half_a_line() -> None:
    mailbox = Mailbox()
    lines = [b"x" * 100_000 + b"\n" for _ in range(7)]
    for line in lines:
        mailbox.put(line)

    pieces = []
    while piece := mailbox.take():
        pieces.append(piece)
        mailbox.sent()

    assert b"".join(pieces) == b"".join(lines)
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert max(map(len, pieces)) < PIECE + len(lines[0])


def test_a_reader_that_keeps_up_is_written_to_at_once() -> None:
    written: list[bytes] = []

    def write(data: bytes) -> int:
        written.append(data)
        return len(data)

    mailbox = Mailbox(at_once=write)

    mailbox.put(b"one\ntwo\n")

    assert (written, mailbox.waiting, mailbox.take()) == ([b"one\ntwo\n"], 0, b"")


def test_what_is_written_in_part_goes_on_before_all_else() -> None:
    mailbox = Mailbox(at_once=lambda data: 2)

    mailbox.put(b"one\n")
    mailbox.put(b"two\n")

    assert mailbox.waiting == 6
    assert mailbox.take() == b"e\ntwo\n"
    mailbox.sent()
    assert mailbox.waiting == 0


def test_the_last_line_of_who_is_dropped_stands_behind_a_whole_one() -> None:
    mailbox = Mailbox(at_once=lambda data: 2)
    mailbox.put(b"one\n")
    mailbox.put(b"two\n")

    mailbox.close(b"dropped\n")

    assert mailbox.take() == b"e\ndropped\n"
    mailbox.sent()
    assert (mailbox.waiting, mailbox.take()) == (0, b"")
