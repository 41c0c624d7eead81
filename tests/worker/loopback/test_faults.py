import pytest
from hypothesis import given, settings, strategies as st

from worker.api import Request
from worker.client import Failure, FailureKind
from worker.loopback.faults import (
    BAD_UTF8,
    EMPTY,
    GARBAGE,
    HTML_INSTEAD,
    After,
    Cut,
    Drop,
    ErrorEvent,
    Fault,
    Faults,
    Hang,
    Redirect,
    Slow,
    Status,
    Truncate,
    comes_first,
    fault_of,
    overloaded,
    parse_faults,
    rate_limit,
)
from worker.loopback.plan import (
    Close,
    End,
    Head,
    Send,
    Step,
    Wait,
    plan,
    plan_reply,
)

EVENTS = [b"one\n\n", b"two\n\n", b"three\n\n", b"four\n\n"]
STREAM = Head(
    200,
    (
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("request-id", "req_1"),
    ),
)


def sends(*parts: bytes) -> list[Step]:
    return [Send(part) for part in parts]


BROKEN = (
    b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error",'
    b'"message":"Overloaded"},"request_id":"req_1"}\n\n'
)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, [STREAM, *sends(*EVENTS), End()]),
        (ErrorEvent(), [STREAM, *sends(*EVENTS[:2], BROKEN), End()]),
        (ErrorEvent(After(events=1)), [STREAM, *sends(EVENTS[0], BROKEN), End()]),
        (Truncate(), [STREAM, *sends(*EVENTS[:2]), End()]),
        (Truncate(After(size=7)), [STREAM, *sends(b"one\n\ntw"), End()]),
        (Truncate(After(events=0)), [STREAM, End()]),
        (Cut(), [STREAM, *sends(*EVENTS[:2]), Close()]),
        (Cut(reset=True), [STREAM, *sends(*EVENTS[:2]), Close(reset=True)]),
        (Drop(), [Close()]),
        (Hang(), [STREAM, *sends(*EVENTS[:2]), Wait(), Close()]),
        (Hang(after=None), [Wait(), Close()]),
        (GARBAGE, [STREAM, *sends(*EVENTS[:2], GARBAGE.data, *EVENTS[2:]), End()]),
        (BAD_UTF8, [STREAM, *sends(*EVENTS[:2], BAD_UTF8.data, *EVENTS[2:]), End()]),
        (
            Slow(0.5, first=2),
            [
                Wait(2),
                STREAM,
                *(step for e in EVENTS for step in (Wait(0.5), Send(e))),
                End(),
            ],
        ),
    ],
)
def test_a_fault_spoils_the_stream_in_its_way(
    fault: Fault | None, expected: list[Step]
) -> None:
    assert plan(EVENTS, fault, "req_1") == expected


def test_a_status_carries_the_error_s_type_and_headers() -> None:
    body = (
        b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"},'
        b'"request_id":"req_1"}'
    )
    headers = (
        ("content-type", "application/json"),
        ("request-id", "req_1"),
        ("retry-after", "3"),
    )

    fault = Status(429, "Slow down", headers=(("retry-after", "3"),))

    assert plan(EVENTS, fault, "req_1") == [
        Head(429, headers, len(body)),
        Send(body),
        End(),
    ]


def test_another_body_replaces_the_stream() -> None:
    html = ("content-type", "text/html")
    rest = (("cache-control", "no-cache"), ("request-id", "req_1"))
    body = HTML_INSTEAD.body

    assert plan(EVENTS, HTML_INSTEAD, "req_1") == [
        Head(200, (html, *rest), len(body)),
        Send(body),
        End(),
    ]
    assert plan(EVENTS, EMPTY, "req_1") == [
        Head(200, (("content-type", STREAM.headers[0][1]), *rest), 0),
        End(),
    ]


def test_a_redirect_says_where() -> None:
    assert plan(EVENTS, Redirect("http://elsewhere/"), "req_1") == [
        Head(307, (("location", "http://elsewhere/"), ("request-id", "req_1")), 0),
        End(),
    ]


def test_a_json_body_is_cut_like_a_stream_of_one_event() -> None:
    steps = plan_reply(b'{"a":1}', Cut(After(size=3)), "req_1")

    head, *rest = steps
    assert isinstance(head, Head)
    assert head.headers[0] == ("content-type", "application/json")
    assert rest == [Send(b'{"a'), Close()]


@settings(max_examples=50)
@given(st.lists(st.binary(min_size=1), max_size=8), st.integers(0, 40))
def test_a_split_loses_no_byte(events: list[bytes], at: int) -> None:
    for after in (After(), After(events=at), After(size=at)):
        head, tail = after.split(events)

        assert b"".join(head + tail) == b"".join(events)


@pytest.mark.parametrize(
    ("fault", "headers"),
    [
        (rate_limit(), ()),
        (rate_limit(seconds=1.5), (("retry-after", "1.5"),)),
        (rate_limit(milliseconds=20), (("retry-after-ms", "20"),)),
        (
            rate_limit(date="Fri, 31 Dec 2100 23:59:59 GMT"),
            (("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT"),),
        ),
    ],
)
def test_a_rate_limit_asks_to_wait_in_each_form(
    fault: Status, headers: tuple[tuple[str, str], ...]
) -> None:
    assert fault == Status(429, headers=headers)


def test_faults_are_chosen_by_number_before_by_function() -> None:
    def choose(number: int, request: Request | None) -> Fault | None:
        return Drop() if number % 2 == 0 else None

    faults = Faults(at={2: Cut()}, choose=choose)

    assert [faults.of(n, None) for n in range(1, 5)] == [None, Cut(), None, Drop()]


def test_faults_are_read_from_a_command_line() -> None:
    text = "1:529, 2:429=3,3:cut,4:slow=0.5,5:404,12:overflow"

    assert parse_faults(text).at == {
        1: overloaded(),
        2: rate_limit(seconds=3),
        3: Cut(),
        4: Slow(0.5),
        5: Status(404),
        12: Status(400, "prompt is too long: 200001 tokens > 200000 maximum"),
    }
    assert parse_faults("").at == {}


@pytest.mark.parametrize("text", ["3", "x:529", "0:cut", "3:", "3:explode", "3:200"])
def test_a_fault_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="fault '"):
        parse_faults(text)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("invalid", Status(400, "why")),
        ("auth", Status(401, "why")),
        ("billing", Status(402, "why")),
        ("not_found", Status(404, "why")),
        (
            "output_too_large",
            Status(
                400,
                "max_tokens: 4097 > 4096, which is the maximum allowed number of "
                "output tokens",
            ),
        ),
        ("payload_too_large", Status(413, "why")),
        ("rate_limit", Status(429, "why")),
        ("overloaded", Status(529, "why")),
        ("server", Status(500, "why")),
        ("connection", Drop()),
        ("timeout", Hang(after=None)),
        ("truncated", Truncate()),
        ("garbled", GARBAGE),
        ("not_a_stream", HTML_INSTEAD),
        (
            "overflow",
            Status(400, "prompt is too long: 200001 tokens > 200000 maximum"),
        ),
    ],
)
def test_every_failure_of_a_policy_has_its_fault(
    kind: FailureKind, expected: Fault
) -> None:
    assert fault_of(Failure(kind, "why")) == expected


def test_a_played_failure_keeps_its_figures() -> None:
    limited = Failure("rate_limit", "why", status=429, retry_after=2)
    long = Failure("overflow", "why", prompt_tokens=12, window_tokens=10)

    assert fault_of(limited) == Status(429, "why", headers=(("retry-after", "2"),))
    assert fault_of(long) == Status(400, "prompt is too long: 12 tokens > 10 maximum")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, False),
        (Cut(), False),
        (Hang(), False),
        (Hang(after=None), True),
        (Drop(), True),
        (overloaded(), True),
        (EMPTY, True),
        (Redirect("http://elsewhere/"), True),
    ],
)
def test_what_replaces_the_answer_comes_before_any_judgement(
    fault: Fault | None, expected: bool
) -> None:
    assert comes_first(fault) is expected
