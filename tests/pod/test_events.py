"""What a line of the event stream looks like, to the letter."""

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pod.codec import decode
from pod.entries import (
    AutoRead,
    BranchSummary,
    BreakerChange,
    Clip,
    DeliveredEntry,
    Directive,
    FileDetails,
    InputEntry,
    ItemEntry,
    Known,
    Leaf,
    ModelChange,
    NavigationFailed,
    Notice,
    Permission,
    PromptChange,
    Prune,
    Receipt,
    Reference,
    RunEnd,
    RunStart,
    SandboxChange,
    ToolStart,
    UsageEntry,
)
from pod.events import (
    PROTOCOL,
    Closing,
    CompactDone,
    CompactFailed,
    CompactProgress,
    CompactSkipped,
    CompactStart,
    Context,
    Dropped,
    Event,
    HookFailed,
    Init,
    NavigateStart,
    Status,
    ToolInfo,
    line,
)
from worker.client import ReasoningDelta, TextDelta, ToolInputDelta
from worker.events import RequestStart, Retry, ToolProgress, Warning
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)
from worker.usage import Usage

AT = "2026-01-01T00:00:00.000Z"
LIVE = f'{{"v":1,"at":"{AT}","session":"s","run":"r","type":'
DURABLE = f'{{"v":1,"seq":7,"at":"{AT}","session":"s","run":"r","type":'
IDS = ',"id":"e","parent":"d"'


def stamped(entry: Known) -> Known:
    return replace(entry, seq=7, id="e", parent="d", at=AT, run="r")


GOLDEN_LIVE: list[tuple[Event, str]] = [
    (
        Init(
            protocol=PROTOCOL,
            pod="p",
            version="1",
            model="m",
            provider="scripted",
            context_window=None,
            max_tokens=5,
            tools=(ToolInfo("bash", True),),
            cwd="/w",
            log=None,
            resumed=False,
            sandbox="off",
        ),
        (
            '"init","protocol":"pod/1","pod":"p","version":"1","model":"m",'
            '"provider":"scripted","context_window":null,"max_tokens":5,'
            '"tools":[{"name":"bash","has_effects":true}],"cwd":"/w","log":null,'
            '"resumed":false,"sandbox":"off"}'
        ),
    ),
    (
        CompactProgress(
            compaction_id="c",
            requests=2,
            worker_input_tokens=6_000,
            auto_read_tokens=300,
            auto_read_budget=8_000,
            references=5,
            has_summary=False,
        ),
        (
            '"compact_progress","compaction_id":"c","requests":2,'
            '"worker_input_tokens":6000,"auto_read_tokens":300,'
            '"auto_read_budget":8000,"references":5,"has_summary":false}'
        ),
    ),
    (
        CompactSkipped(reason="empty", message="m"),
        '"compact_skipped","reason":"empty","message":"m"}',
    ),
    (
        HookFailed(event="run_end", hook="h", message="m"),
        '"hook_failed","event":"run_end","hook":"h","message":"m"}',
    ),
    (
        NavigateStart(
            target="t", old_leaf="o", new_leaf=None, entries=3, summarize=True
        ),
        (
            '"navigate_start","target":"t","old_leaf":"o","new_leaf":null,'
            '"entries":3,"summarize":true}'
        ),
    ),
    (
        Context(
            tokens=52_000,
            estimate=None,
            post_run_threshold=80_000,
            turn_threshold=90_000,
            window=200_000,
        ),
        (
            '"context","tokens":52000,"estimate":null,"post_run_threshold":80000,'
            '"turn_threshold":90000,"window":200000}'
        ),
    ),
    (Status(state="paused"), '"status","state":"paused"}'),
    (Closing(reason="shutdown"), '"closing","reason":"shutdown"}'),
    (Dropped(message="slow"), '"dropped","message":"slow"}'),
    (
        RequestStart(request=1, model="m", items=2, max_tokens=3, estimate=None),
        (
            '"request_start","request":1,"model":"m","items":2,"max_tokens":3,'
            '"estimate":null}'
        ),
    ),
    (
        Retry(
            attempt=1,
            attempts=8,
            wait=0.5,
            kind="overloaded",
            status=529,
            message="busy",
        ),
        (
            '"retry","attempt":1,"attempts":8,"wait":0.5,"kind":"overloaded",'
            '"status":529,"message":"busy"}'
        ),
    ),
    (
        ToolProgress(call_id="c", name="bash", text="half"),
        '"tool_progress","call_id":"c","name":"bash","text":"half"}',
    ),
    (Warning(message="careful"), '"warning","message":"careful"}'),
    (TextDelta(text="é\u2028"), '"text_delta","text":"\\u00e9\\u2028"}'),
    (ReasoningDelta(text="hm"), '"reasoning_delta","text":"hm"}'),
    (
        ToolInputDelta(call_id="c", name="bash", json='{"a'),
        '"tool_input_delta","call_id":"c","name":"bash","json":"{\\"a"}',
    ),
]

GOLDEN_DURABLE: list[tuple[Known, str]] = [
    (
        RunStart(model="m", resumed=True),
        f'"run_start"{IDS},"model":"m","resumed":true}}',
    ),
    (
        InputEntry(input="i", text="go"),
        f'"input"{IDS},"input":"i","text":"go"}}',
    ),
    (
        DeliveredEntry(inputs=("i", "j")),
        f'"delivered"{IDS},"inputs":["i","j"]}}',
    ),
    (
        UsageEntry(
            response="x",
            model="m",
            stop_reason="end_turn",
            usage=Usage(input=1, output=2),
            context_tokens=3,
        ),
        (
            f'"usage"{IDS},"response":"x","model":"m","stop_reason":"end_turn",'
            '"usage":{"input":1,"output":2},"context_tokens":3,"cost_usd":null}'
        ),
    ),
    (
        Permission(
            call_id="c", tool="bash", decision="deny", by="rule", rule="r", reason="no"
        ),
        (
            f'"permission"{IDS},"call_id":"c","tool":"bash","decision":"deny",'
            '"by":"rule","rule":"r","reason":"no"}'
        ),
    ),
    (
        ToolStart(call_id="c", name="bash"),
        f'"tool_start"{IDS},"call_id":"c","name":"bash"}}',
    ),
    (
        RunEnd(outcome="finished", reason="done", exit_code=0, text="hi"),
        (
            f'"result"{IDS},"outcome":"finished","reason":"done","exit_code":0,'
            '"interrupted":false,"message":"","text":"hi","requests":0,'
            '"tool_calls":0,"tool_errors":0,"usage":{},"cost_usd":null,"seconds":0.0,"returned":[],"permission_denials":[]}'
        ),
    ),
    (
        ModelChange(model="n", previous="m"),
        f'"model_change"{IDS},"model":"n","previous":"m"}}',
    ),
    (
        SandboxChange(tier="landlock", previous="bwrap"),
        f'"sandbox_change"{IDS},"tier":"landlock","previous":"bwrap"}}',
    ),
    (
        PromptChange(system="new"),
        f'"prompt_change"{IDS},"system":"new"}}',
    ),
    (Notice(message="torn"), f'"notice"{IDS},"message":"torn"}}'),
    (
        CompactStart(
            compaction_id="c",
            reason="mid_turn",
            mode="worker",
            tokens_before=90_500,
            threshold=90_000,
            will_retry=True,
        ),
        (
            f'"compact_start"{IDS},"compaction_id":"c","reason":"mid_turn",'
            '"mode":"worker","tokens_before":90500,"threshold":90000,'
            '"will_retry":true}'
        ),
    ),
    (
        CompactDone(
            compaction_id="c",
            reason="mid_turn",
            mode="worker",
            summary="s",
            first_kept="k",
            compacted_from="d",
            tokens_before=90_500,
            tokens_after=14_000,
            directives=(Directive("go"), Directive("a […] z", clipped=True)),
            auto_read=(AutoRead("/a", "x", "00", 5, 1, 2),),
            references=(Reference("/b", "read before compaction"),),
            details=FileDetails(read_files=("/b",)),
            receipt=Receipt(summarised_items=9, attempts=("worker: used",)),
            usage=Usage(input=5),
            cost_usd=0.5,
            seconds=1.5,
        ),
        (
            f'"compact_done"{IDS},"compaction_id":"c","reason":"mid_turn",'
            '"mode":"worker","summary":"s","first_kept":"k","compacted_from":"d",'
            '"tokens_before":90500,"tokens_after":14000,'
            '"directives":[{"text":"go"},{"text":"a [\\u2026] z","clipped":true}],'
            '"auto_read":[{"path":"/a","text":"x","sha256":"00","tokens":5,'
            '"start":1,"end":2}],'
            '"references":[{"path":"/b","use":"read before compaction"}],'
            '"details":{"read_files":["/b"]},'
            '"receipt":{"summarised_items":9,"attempts":["worker: used"]},'
            '"usage":{"input":5},"cost_usd":0.5,"seconds":1.5}'
        ),
    ),
    (
        CompactFailed(
            compaction_id="c",
            code="timeout",
            message="Auto-compaction failed: late",
            retryable=True,
            consecutive_failures=3,
            breaker_open=True,
        ),
        (
            f'"compact_failed"{IDS},"compaction_id":"c","code":"timeout",'
            '"message":"Auto-compaction failed: late","retryable":true,'
            '"consecutive_failures":3,"breaker_open":true,"cost_usd":null}'
        ),
    ),
    (
        BreakerChange(failures=3, opened_at=AT, fingerprint="f"),
        f'"breaker"{IDS},"failures":3,"opened_at":"{AT}","fingerprint":"f"}}',
    ),
    (
        Prune(entries=("e",), tokens=(9,), saved=5),
        f'"prune"{IDS},"entries":["e"],"tokens":[9],"saved":5}}',
    ),
    (Leaf(target=None), f'"leaf"{IDS},"target":null}}'),
    (
        BranchSummary(
            from_id="f",
            summary="s",
            details=FileDetails(modified_files=("a",)),
            summarised=4,
            left_out=1,
            model="m",
            usage=Usage(input=5),
            seconds=1.5,
        ),
        (
            f'"branch_summary"{IDS},"from_id":"f","summary":"s",'
            '"details":{"modified_files":["a"]},"summarised":4,"left_out":1,'
            '"model":"m","usage":{"input":5},"seconds":1.5,"cost_usd":null}'
        ),
    ),
    (
        NavigationFailed(target="t", code="timeout", message="late", cost_usd=0.0),
        (
            f'"navigation_failed"{IDS},"target":"t","code":"timeout",'
            '"message":"late","cost_usd":0.0}'
        ),
    ),
    (Clip(entry="e", text="…"), f'"clip"{IDS},"entry":"e","text":"\\u2026"}}'),
]

GOLDEN_ITEMS: list[tuple[Item, str]] = [
    (SystemText("s"), '{"type":"system_text","text":"s"}'),
    (UserText("u"), '{"type":"user_text","text":"u"}'),
    (
        AssistantText("a", "x"),
        '{"type":"assistant_text","text":"a","response":"x"}',
    ),
    (
        Reasoning("hm", "x", "m", signature="sig"),
        (
            '{"type":"reasoning","text":"hm","response":"x","model":"m",'
            '"signature":"sig"}'
        ),
    ),
    (
        ToolCall("c", "bash", "{}", "x"),
        (
            '{"type":"tool_call","call_id":"c","name":"bash","arguments":"{}",'
            '"response":"x"}'
        ),
    ),
    (
        ToolResult("c", "ran", "out", is_error=True),
        (
            '{"type":"tool_result","call_id":"c","summary":"ran","content":"out",'
            '"is_error":true}'
        ),
    ),
    (Opaque("{}", "x"), '{"type":"opaque","json":"{}","response":"x"}'),
]


@pytest.mark.parametrize(
    ("event", "shown"), GOLDEN_LIVE, ids=[shown[1:20] for _, shown in GOLDEN_LIVE]
)
def test_a_live_event_has_no_number(event: Event, shown: str) -> None:
    assert line(event, session="s", at=AT, run="r").decode() == f"{LIVE}{shown}\n"


@pytest.mark.parametrize(
    ("entry", "shown"), GOLDEN_DURABLE, ids=[shown[1:20] for _, shown in GOLDEN_DURABLE]
)
def test_a_durable_event_is_its_entry_with_its_number(entry: Known, shown: str) -> None:
    assert line(stamped(entry), session="s").decode() == f"{DURABLE}{shown}\n"


@pytest.mark.parametrize(
    ("item", "shown"), GOLDEN_ITEMS, ids=[type(i).__name__ for i, _ in GOLDEN_ITEMS]
)
def test_an_item_is_given_as_it_is_in_the_log(item: Item, shown: str) -> None:
    made = line(stamped(ItemEntry(item=item)), session="s").decode()

    assert made == f'{DURABLE}"item"{IDS},"item":{shown}}}\n'


def test_an_entry_of_a_kind_that_nobody_knows_is_given_as_it_is() -> None:
    entry = decode(
        b'{"type":"zz_new","seq":7,"id":"e","parent":"d","at":"%s","run":"r",'
        b'"v":99,"what":{"deep":[1]}}' % AT.encode()
    )

    shown = line(entry, session="s").decode()

    assert shown == f'{DURABLE}"zz_new"{IDS},"what":{{"deep":[1]}}}}\n'


@given(text=st.text(st.characters(exclude_categories=[]), max_size=50))
def test_any_text_comes_as_one_line_of_ascii_that_anybody_can_read(text: str) -> None:
    made = line(ToolProgress(call_id=text, name=text, text=text), session="s", at=AT)

    assert made.isascii()
    assert len(made.decode().splitlines()) == 1
    read = msgspec.json.decode(made, type=dict[str, object])
    assert read["text"] == text.encode("utf-8", "replace").decode()
