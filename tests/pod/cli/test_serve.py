"""``pod serve`` and its clients, as processes."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from pod.cli.failing import UsageError
from pod.cli.serve import Where, where_of
from tests.command import POD, Done, environment
from tests.tools.sandbox.tiers import some_bash

MANIFEST = """
[pod]
name = "test"
[model]
provider = "scripted"
id = "{policy}"
[session]
dir = "sessions"
durability = "flush"
[permissions]
write_roots = []
""" + some_bash()


class Told(msgspec.Struct, frozen=True):
    """What the tests look at in a line."""

    type: str = ""
    id: str | int | None = None
    ok: bool | None = None
    seq: int | None = None
    text: str = ""
    outcome: str = ""


class Place:
    """A folder with a manifest, and the environment its commands run in."""

    def __init__(self, folder: Path, policy: str = "echo:2") -> None:
        self.folder = folder
        (folder / "pod.toml").write_text(MANIFEST.format(policy=policy), "utf-8")
        self.env = environment(folder) | {"XDG_RUNTIME_DIR": str(folder)}

    def pod(self, *arguments: str) -> Done:
        done = subprocess.run(
            [*POD, *arguments],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def started(self, *arguments: str) -> subprocess.Popen[bytes]:
        # Unbuffered: what readline read ahead would be lost to communicate.
        return subprocess.Popen(
            [*POD, *arguments],
            bufsize=0,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Serve for as long as the context lasts; it listens when this is entered."""
        process = self.started("serve", *arguments)
        try:
            if "stdio://" not in arguments:
                first = first_line(process)
                assert first.startswith(b"unix://"), process.communicate()
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def place(short: Path) -> Place:
    return Place(short)


def states(place: Place) -> list[str]:
    rows = msgspec.json.decode(f"[{place.pod('ps', '--json').out}]", type=list[Row])
    return [row.state for row in rows]


class Row(msgspec.Struct, frozen=True):
    state: str


def told(out: str | bytes) -> list[Told]:
    return [msgspec.json.decode(line, type=Told) for line in out.splitlines()]


def test_a_pod_is_listed_listened_to_sent_to_and_stopped(place: Place) -> None:
    with place.serving() as process:
        with (
            place.started("attach", "test", "--from-seq", "0") as person,
            place.started("attach", "--json", "--types", "result") as program,
        ):
            begins = [first_line(person), first_line(program)]
            listed = place.pod("ps", "--json")
            refused = place.pod("send", "test", "--steer", "left")
            sent = place.pod("send", "test", "do it", "--wait")
            stopped = place.pod("stop")
            code = process.poll()
            shown = person.communicate()[0].decode().splitlines()
            lines = told(begins[1] + program.communicate()[0])
        after = place.pod("ps")

    (row,) = msgspec.json.decode(f"[{listed.out}]", type=list[dict[str, str | int]])
    assert (row["name"], row["pid"], row["state"]) == ("test", process.pid, "idle")
    assert refused == Done(
        1, "", "pod: no run is under way: give a prompt (without --steer)\n"
    )
    assert sent == Done(0, "Done after 2 calls.\n", "")
    assert (stopped, code) == (Done(0, "", ""), 0)
    assert after == Done(0, "no Pod runs\n", "")
    assert [path.name for path in (place.folder / "pod").iterdir()] == ["pods"]
    assert begins[0].startswith(b"test, session ")
    assert (shown[0], shown[-1]) == ("» do it", "the Pod has ended")
    assert any(line.startswith("finished after") for line in shown)
    assert [line.type for line in lines] == ["snapshot", "result", "closing"]


def test_a_session_is_gone_on_with_and_a_late_listener_hears_it_all(
    place: Place,
) -> None:
    with place.serving():
        place.pod("send", "test", "first", "--wait")
        place.pod("stop")
    with place.serving("--continue"):
        place.pod("send", "test", "second", "--wait")
        with place.started("attach", "--json", "--from-seq", "0") as attached:
            first = first_line(attached)
            place.pod("stop")
            lines = told(first + attached.communicate()[0])

    numbers = [line.seq for line in lines if line.seq is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [line.text for line in lines if line.type == "input"] == ["first", "second"]


def test_a_run_is_paused_resumed_and_interrupted_by_commands(place: Place) -> None:
    with place.serving("-c", 'model.id="echo:1000"'):
        none = [place.pod("pause"), place.pod("resume"), place.pod("interrupt")]
        place.pod("send", "test", "do it")
        paused = place.pod("pause")
        stands = states(place)
        resumed = place.pod("resume", "test")
        runs = states(place)
        ended = place.pod("interrupt")
        at_last = states(place)

    assert none == [
        Done(1, "", "pod: no run is under way\n"),
        Done(1, "", "pod: there is no open turn: give a prompt\n"),
        Done(1, "", "pod: nothing is under way\n"),
    ]
    assert [paused, resumed, ended] == [Done(0, "", "")] * 3
    assert (stands, runs, at_last) == (["paused"], ["running"], ["idle"])


def test_a_resumed_run_can_be_waited_for(place: Place) -> None:
    with place.serving("-c", 'model.id="echo:60"'):
        place.pod("send", "test", "do it")
        place.pod("pause")
        done = place.pod("resume", "--wait")

    assert done == Done(0, "Done after 60 calls.\n", "")


def test_a_session_that_a_pod_has_is_compacted_by_that_pod(place: Place) -> None:
    small = ("retained_tokens=100", "min_gain=0.01", 'mode="mechanical"')
    settings = [word for each in small for word in ("-c", f"compaction.{each}")]
    with place.serving(*settings, "-c", 'model.id="echo:40"'):
        session = next((place.folder / "sessions").glob("*.jsonl")).stem
        empty = place.pod("compact", session, "-q")
        place.pod("send", "test", "do it", "--wait")
        refused = place.pod("compact", session, "--refresh-prompt")
        done = place.pod("compact", session)

    assert refused.code == 2
    assert (done.code, done.err) == (
        0,
        "pod: a Pod that runs has this session: it is asked, by its own manifest\n",
    )
    assert done.out.startswith("compaction 1 of 1: done, ")
    assert done.out.endswith(f"summary    pod session show {session} --compaction 1\n")
    assert empty == Done(
        7, "", "pod: there is nothing to summarise: the history is empty\n"
    )


def test_types_of_events_are_separated_by_commas(place: Place) -> None:
    with place.serving():
        place.pod("send", "test", "do it", "--wait")
        types = ("--types", "input,result", "--types", "run_start")
        with place.started("attach", "--json", "--from-seq", "0", *types) as attached:
            first = first_line(attached)
            place.pod("stop")
            lines = told(first + attached.communicate()[0])

    assert [line.type for line in lines[1:-1]] == ["input", "run_start", "result"]


def test_over_standard_streams_there_are_protocol_lines_and_nothing_else(
    place: Place,
) -> None:
    with place.serving("--listen", "stdio://") as process:
        out, _ = process.communicate(
            b'{"id":1,"method":"subscribe"}\n'
            b'{"id":2,"method":"prompt","params":{"text":"do it"}}\r\n'
            b"nonsense\n"
            b'{"id":3,"method":"follow_up","params":{"text":"again"}}'
        )

    lines = told(out)
    assert process.returncode == 0
    assert lines[0].type == "snapshot"
    answers = {each.id: each.ok for each in lines if each.ok is not None}
    assert answers == {1: True, 2: True, None: False, 3: True}
    assert [each.text for each in lines if each.type == "result"] == [
        "Done after 2 calls.",
        "Done after 2 calls.",
    ]
    assert lines[-1].type == "closing"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_it_cleanly(place: Place, number: int, code: int) -> None:
    with place.serving() as process:
        process.send_signal(number)
        ended = process.wait()

    assert ended == code
    assert list((place.folder / "pod").glob("*.sock*")) == []
    assert list((place.folder / "pod" / "pods").iterdir()) == []


def test_a_pod_that_was_killed_is_not_listed_and_its_socket_is_taken_over(
    place: Place,
) -> None:
    where = f"unix://{place.folder}/a.sock"
    with place.serving("--listen", where) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with place.serving("--listen", where) as second:
            assert f'"pid":{second.pid},' in place.pod("ps", "--json").out


@pytest.mark.parametrize("looker", ["ps", "stop", "serve"])
def test_nothing_stays_of_a_pod_that_was_killed(place: Place, looker: str) -> None:
    sockets = [place.folder / "a.sock", place.folder / "b.sock"]
    listen = [part for path in sockets for part in ("--listen", f"unix://{path}")]
    with place.serving(*listen) as given, place.serving() as default:
        left = [*place.folder.glob("*.sock*"), *(place.folder / "pod").rglob("*.*")]
        for process in (given, default):
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

        match looker:
            case "serve":
                with place.serving("--listen", f"unix://{place.folder}/c.sock"):
                    pass
            case _:
                place.pod(looker)

    assert len(left) == 2 * 2 + 2 + 2  # each socket and its lock, and two Pods' files
    assert [path for path in left if os.path.lexists(path)] == []


@pytest.mark.parametrize("command", ["serve", "send"])
def test_a_path_that_is_too_long_is_refused_with_one_line(
    place: Place, command: str
) -> None:
    path = f"unix://{place.folder}/{'x' * 100}"
    rest = {"serve": ["--listen", path], "send": [path, "text"]}[command]
    done = place.pod(command, *rest)

    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "the system allows 107" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ["attach", "nosuch"],
        ["send", "nosuch", "text"],
        ["answer", "nosuch", "call", "allow"],
        ["stop", "nosuch"],
    ],
)
def test_a_pod_that_is_not_there_is_exit_code_1_as_a_session_is(
    place: Place, command: list[str]
) -> None:
    done = place.pod(*command)
    session = place.pod("session", "show", "nosuch")

    assert done == Done(1, "", "pod: no Pod 'nosuch' runs: none runs\n")
    assert session.code == 1


def test_without_a_pod_a_client_says_what_to_do(place: Place) -> None:
    assert place.pod("attach") == Done(
        1, "", "pod: no Pod runs: start one with pod serve\n"
    )


def test_who_wants_to_resume_a_session_is_told_how(place: Place) -> None:
    done = place.pod("resume", "20260101-000000-0000")

    assert done == Done(
        1,
        "",
        "pod: no Pod '20260101-000000-0000' runs: none runs; a session that no Pod has"
        " goes on with pod run --resume 20260101-000000-0000\n",
    )


def test_a_socket_without_a_pod_is_said_to_be_none(place: Place) -> None:
    done = place.pod("send", f"{place.folder}/none.sock", "text")

    assert done == Done(
        1,
        "",
        f"pod: no Pod listens on {place.folder}/none.sock: No such file or directory\n",
    )


def test_where_to_listen_is_read_from_the_flags() -> None:
    assert where_of([], Path("/w")) == Where()
    assert where_of(["stdio://"], Path("/w")) == Where(streams=True)
    assert where_of(["unix:///a", "unix://b", "stdio://"], Path("/w")) == Where(
        (Path("/a"), Path("/w/b")), streams=True
    )


@pytest.mark.parametrize("where", ["tcp://localhost:1", "unix://", "/a.sock"])
def test_what_is_no_place_to_listen_is_refused(where: str) -> None:
    with pytest.raises(UsageError, match=r"write unix:///path/to\.sock, or stdio://$"):
        where_of([where], Path("/w"))


def test_clients_load_neither_an_sdk_nor_a_tokenizer(place: Place) -> None:
    code = (
        "import sys; from pod.cli import main; main(['ps']);"
        "import pod.protocol.client, pod.cli.send, pod.cli.attach;"
        "print(sorted({'anthropic', 'pydantic', 'tiktoken', 'toktok_rs', 'httpx2'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [POD[0], "-P", "-c", code],
        env=place.env,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "no Pod runs\n[]\n"
