import pytest
from msgspec.structs import replace

from pod.check import Facts, Finding, check, finding_line
from pod.manifest import (
    CompactionTable,
    LimitsTable,
    Manifest,
    ModelTable,
    PermissionsTable,
    PromptTable,
    RetryTable,
    SessionTable,
    ToolsTable,
)
from pod.merge import Source
from pod.places import Place
from pod.toml_positions import Position


def folder(path: str, name: str = "") -> Place:
    return Place(name or path, path, "folder")


def file(path: str, name: str = "") -> Place:
    return Place(name or path, path, "file")


def missing(path: str, name: str = "") -> Place:
    return Place(name or path, path, "missing")


FINE = Facts(
    read_roots=(folder("/work"),),
    write_roots=(folder("/work"),),
    session_dir=folder("/state"),
    manifest=file("/etc/pod.toml"),
    system_file=None,
    python=(),
    window=200_000,
    unpriced=(),
)


def error(key: str, text: str) -> Finding:
    return Finding("error", key, text)


def warning(key: str, text: str) -> Finding:
    return Finding("warning", key, text)


def test_the_defaults_go_together() -> None:
    assert check(Manifest(), FINE) == ()


@pytest.mark.parametrize(
    ("manifest", "finding"),
    [
        (
            Manifest(model=ModelTable(max_tokens=200_000)),
            error(
                "model.max_tokens",
                "200_000 output tokens leave no room for a prompt in a window of 200_000 tokens",
            ),
        ),
        (
            Manifest(model=ModelTable(thinking=4_000, max_tokens=4_000)),
            error(
                "model.thinking",
                "a budget of 4000 tokens does not fit into max_tokens = 4000; the answer itself needs room there, too",
            ),
        ),
        (
            Manifest(model=ModelTable(thinking=1_023)),
            error(
                "model.thinking",
                "a budget of 1023 tokens is below the provider's least, 1024",
            ),
        ),
        (
            Manifest(model=ModelTable(thinking="adaptive", temperature=0.5)),
            warning(
                "model.temperature",
                "together with thinking the provider takes no temperature but 1",
            ),
        ),
        (
            Manifest(prompt=PromptTable(system="a", system_file="b")),
            error("prompt.system_file", "set together with system: keep one of them"),
        ),
        (
            Manifest(prompt=PromptTable(system=" \n")),
            error("prompt.system", "a blank text; leave the key out instead"),
        ),
        (
            Manifest(prompt=PromptTable(append="")),
            error("prompt.append", "a blank text; leave the key out instead"),
        ),
        (
            Manifest(retry=RetryTable(base=2, cap=1)),
            error("retry.base", "the first wait of 2 s is above cap = 1 s"),
        ),
        (
            Manifest(tools=ToolsTable(builtin=("bash", "grep", "bash"))),
            error("tools.builtin", '"bash" is listed twice'),
        ),
        (
            Manifest(tools=ToolsTable(python=("a.py:f", "a.py:f"))),
            error("tools.python", '"a.py:f" is listed twice'),
        ),
        (
            Manifest(tools=ToolsTable(python=("a.py:f", "b.py:f"))),
            error("tools.python", 'two tools are called "f"'),
        ),
        (
            Manifest(tools=ToolsTable(python=("a.py:bash",))),
            error("tools.python", 'two tools are called "bash"'),
        ),
        (
            Manifest(tools=ToolsTable(timeout=60)),
            warning(
                "tools.bash_timeout",
                "120 s are never reached: timeout = 60 s ends every tool before",
            ),
        ),
    ],
)
def test_values_that_do_not_go_together(manifest: Manifest, finding: Finding) -> None:
    assert check(manifest, FINE) == (finding,)


def test_values_that_just_go_together() -> None:
    manifest = Manifest(
        model=ModelTable(max_tokens=199_999, thinking=199_998),
        retry=RetryTable(base=1, cap=1),
        tools=ToolsTable(
            builtin=("grep",), python=("a.py:bash", "a.py:g"), timeout=120
        ),
        limits=LimitsTable(max_budget_usd=1),
        compaction=CompactionTable(
            compact_threshold=24_001,
            turn_threshold=24_002,
            low_water=1,
            summary_target=4_000,
        ),
    )

    assert check(manifest, FINE) == ()


def test_a_budget_in_dollars_needs_a_price() -> None:
    manifest = Manifest(model=ModelTable(id="m"), limits=LimitsTable(max_budget_usd=1))

    assert check(manifest, replace(FINE, unpriced=("m",))) == (
        error(
            "limits.max_budget_usd",
            'the price of "m" is not known, so that this limit cannot be kept; limit max_total_tokens or max_requests instead',
        ),
    )
    assert check(Manifest(), replace(FINE, unpriced=("m",))) == ()


def test_every_model_without_a_price_is_named() -> None:
    manifest = Manifest(limits=LimitsTable(max_budget_usd=1))

    [found] = check(manifest, replace(FINE, unpriced=("a", "b")))

    assert found.text.startswith('the price of "a" and "b" is not known, so')


def test_a_compaction_must_have_room_under_its_limits() -> None:
    small = Manifest(compaction=CompactionTable(compact_threshold=20_000))
    derived = Manifest(model=ModelTable(max_tokens=180_000))
    inverted = Manifest(compaction=CompactionTable(turn_threshold=250_000))
    tight = Manifest(compaction=CompactionTable(compact_threshold=30_000))

    assert check(small, FINE) == (
        error(
            "compaction.compact_threshold",
            "compact_threshold = 20_000 leaves no room: after a compaction the context"
            " may have 24_000 tokens (system prompt and tools 0, retained_tokens 8000,"
            " auto_read_budget 8000, directive_budget 4000, summary_cap 4000). Raise it,"
            " or lower those budgets",
        ),
    )
    [finding] = check(derived, FINE)
    assert finding.level == "error"
    assert finding.text.startswith(
        "the limits that follow from a window of 200_000 tokens, reserve_tokens ="
        " 16_384 and [model] max_tokens = 180_000: compact_threshold = 17_777 leaves"
    )
    [finding] = check(inverted, FINE)
    assert (finding.key, finding.level) == ("compaction.turn_threshold", "error")
    [finding] = check(tight, FINE)
    assert (finding.key, finding.level) == ("compaction.compact_threshold", "warning")
    assert check(tight, replace(FINE, overhead=6_000))[0].level == "error"
    off = CompactionTable(enabled=False, compact_threshold=20_000)
    assert check(Manifest(compaction=off), FINE) == ()
    assert check(derived, replace(FINE, window=None)) == ()


def test_a_remote_mode_needs_its_endpoint_and_models_are_listed_once() -> None:
    url = "http://localhost:9000/"
    without = CompactionTable(mode="remote", models=("a", "a"))
    as_rung = CompactionTable(order=("worker", "remote"))

    assert check(Manifest(compaction=without), FINE) == (
        error(
            "compaction.mode", 'there is "remote" in it, but no remote_endpoint is set'
        ),
        error("compaction.models", '"a" is listed twice'),
    )
    assert check(Manifest(compaction=as_rung), FINE) == (
        error(
            "compaction.order", 'there is "remote" in it, but no remote_endpoint is set'
        ),
    )
    assert check(Manifest(compaction=CompactionTable(remote_endpoint=url)), FINE) == ()


def test_what_the_compaction_table_itself_contradicts() -> None:
    table = CompactionTable(
        order=("worker", "worker"), summary_target=5_000, summary_cap=4_000
    )

    assert check(Manifest(compaction=table), FINE) == (
        error("compaction.order", '"worker" is listed twice'),
        error("compaction.summary_target", "5000 tokens are above summary_cap = 4000"),
    )


def test_an_unknown_window_is_no_problem() -> None:
    manifest = Manifest(model=ModelTable(max_tokens=10**12))

    assert check(manifest, replace(FINE, window=None)) == ()


def test_roots_have_to_be_folders() -> None:
    facts = replace(
        FINE,
        read_roots=(folder("/work"), missing("/work/a", "a")),
        write_roots=(file("/work/b", "b"),),
    )

    assert check(Manifest(), facts) == (
        error(
            "permissions.read_roots",
            'there is no folder "a" ("/work/a"): create it first',
        ),
        error(
            "permissions.write_roots",
            '"b" ("/work/b") is a file: name its folder',
        ),
    )


def test_a_write_root_outside_of_the_read_roots_is_a_warning() -> None:
    facts = replace(FINE, write_roots=(folder("/work-not"), folder("/work/in")))

    assert check(Manifest(), facts) == (
        warning(
            "permissions.write_roots",
            '"/work-not" lies in no read root: what the model writes there it can neither read nor edit again',
        ),
    )


def test_a_root_that_a_link_leads_out_of_the_working_folder_is_a_warning() -> None:
    data, notes = folder("/srv/data", "data"), folder("/srv/notes", "notes")
    facts = replace(
        FINE,
        read_roots=(*FINE.read_roots, data, notes),
        write_roots=(*FINE.write_roots, data),
        led_out=(data, notes),
    )

    def told(key: str, place: str, does: str) -> Finding:
        return warning(
            f"permissions.{key}",
            f"{place}: a link leads out of the working folder, and the model {does}"
            " there; if that is meant, name the place itself",
        )

    assert check(Manifest(), facts) == (
        told("read_roots", '"data" ("/srv/data")', "reads"),
        told("read_roots", '"notes" ("/srv/notes")', "reads"),
        told("write_roots", '"data" ("/srv/data")', "writes"),
    )


def test_a_session_folder_in_a_write_root_is_refused() -> None:
    manifest = Manifest(session=SessionTable(dir="log"))
    facts = replace(FINE, session_dir=missing("/work/log", "log"))

    assert check(manifest, facts) == (
        error(
            "session.dir",
            '"log" ("/work/log") lies in the write root "/work": the model\'s tools could change the Pod\'s own log; it has to be outside of it',
        ),
    )


def test_the_default_session_folder_in_a_write_root_is_a_warning() -> None:
    facts = replace(FINE, session_dir=folder("/work/.local/state/pod"))

    assert check(Manifest(), facts) == (
        warning(
            "session.dir",
            '"/work/.local/state/pod" lies in the write root "/work": the model\'s tools could change the Pod\'s own log; set a folder outside of it',
        ),
    )


def test_what_the_pod_starts_from_in_a_write_root_is_a_warning_each() -> None:
    tool = file("/work/t.py", "t.py")
    facts = replace(
        FINE,
        manifest=file("/work/pod.toml", "pod.toml"),
        system_file=file("/work/p.md", "p.md"),
        python=(tool, tool, file("/elsewhere/t.py")),
    )

    texts = [finding.text for finding in check(Manifest(), facts)]

    assert texts == [
        f'the model may write in "/work", and so change "{name}", which the next run starts from; if it should not, keep that file in another folder, or let write_roots name folders beside it, ["src"] say'
        for name in ("pod.toml", "p.md", "t.py")
    ]


def test_everything_is_in_the_root_of_all_roots() -> None:
    facts = replace(FINE, read_roots=(folder("/"),), write_roots=(folder("/"),))

    findings = check(Manifest(session=SessionTable(dir="/state")), facts)

    assert [(finding.level, finding.key) for finding in findings] == [
        ("error", "session.dir"),
        ("warning", "permissions.write_roots"),
    ]


def test_nothing_is_in_a_write_root_where_there_is_none() -> None:
    facts = replace(FINE, write_roots=(), session_dir=folder("/work/log"))

    assert check(Manifest(permissions=PermissionsTable(write_roots=())), facts) == ()


def test_files_that_are_not_there_are_found_before_a_run() -> None:
    facts = replace(
        FINE,
        system_file=missing("/etc/p.md", "p.md"),
        python=(folder("/etc/t.py", "t.py"),),
    )

    assert check(Manifest(), facts) == (
        error(
            "prompt.system_file",
            '"p.md" ("/etc/p.md") does not exist: a file is needed',
        ),
        error("tools.python", '"t.py" ("/etc/t.py") is a folder: a file is needed'),
    )


def test_a_finding_as_a_line() -> None:
    sources = {
        "retry.base": Source("pod.toml", Position(3, 1)),
        "retry.cap": Source(),
    }

    assert [
        finding_line(finding, sources)
        for finding in (error("retry.base", "wrong"), warning("retry.cap", "odd"))
    ] == [
        "pod.toml:3:1: [retry] base: wrong",
        "warning: [retry] cap: odd",
    ]
