"""The manifest's listeners: what they get, and that no run waits for them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from pod.cli.options import Options
from pod.cli.run import run_loaded
from pod.errors import SetupError
from pod.load_manifest import Loaded, load
from pod.manifest_errors import ManifestError
from pod.protocol.listeners import open_for_lines
from tests.tools.sandbox.tiers import some_bash

MANIFEST = """
[model]
provider = "scripted"
id = "echo:2"
[tools]
builtin = ["bash"]
[session]
dir = "{folder}/sessions"
durability = "flush"
""" + some_bash()


def loaded(short: Path, listeners: str, roots: Sequence[str] = ()) -> Loaded:
    """Load a manifest with *listeners* that lies apart from the folder worked in."""
    work = short / "work"
    work.mkdir()
    text = MANIFEST.format(folder=short) + listeners
    text += f"\n[permissions]\nwrite_roots = {json.dumps(list(roots))}\n"
    (short / "pod.toml").write_text(text, encoding="utf-8")
    return load(short / "pod.toml", [], work)


async def run(short: Path, listeners: str) -> int:
    options = Options(output_format="json", quiet=True)
    with trio.fail_after(60):
        return await run_loaded(
            loaded(short, listeners), short / "work", options, "go", None
        )


def types(lines: bytes) -> list[str]:
    return [json.loads(line)["type"] for line in lines.splitlines()]


async def test_a_file_gets_what_standard_output_would(short: Path) -> None:
    code = await run(short, '[[listeners]]\nfile = "events.jsonl"')

    found = types((short / "events.jsonl").read_bytes())
    assert code == 0
    assert (found[0], found[-1]) == ("init", "result")
    assert found.count("tool_start") == 2
    assert found.count("context") == 3
    assert "text_delta" not in found
    assert (short / "events.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_file_is_appended_to_and_types_keep_the_rest_back(short: Path) -> None:
    (short / "events.jsonl").write_text('{"type":"before"}\n', encoding="utf-8")

    await run(
        short,
        '[[listeners]]\nfile = "events.jsonl"\ntypes = ["run_start", "result"]',
    )

    assert types((short / "events.jsonl").read_bytes()) == [
        "before",
        "run_start",
        "result",
    ]


async def test_deltas_are_for_those_who_ask(short: Path) -> None:
    await run(short, '[[listeners]]\nfile = "events.jsonl"\npartial = true')

    assert "text_delta" in types((short / "events.jsonl").read_bytes())


async def test_a_command_gets_the_lines_and_is_waited_for(short: Path) -> None:
    (short / "keep.sh").write_text(
        '#!/bin/sh\ncat > "$1"\necho kept in "$(pwd)" for "$POD_CWD"\n',
        encoding="utf-8",
    )
    (short / "keep.sh").chmod(0o755)

    code = await run(
        short, '[[listeners]]\ncommand = ["./keep.sh", "kept"]\ntypes = ["result"]'
    )

    assert code == 0
    assert types((short / "kept").read_bytes()) == ["result"]


async def test_a_command_that_reads_nothing_holds_nothing_up(
    short: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = await run(short, '[[listeners]]\ncommand = ["true"]')

    assert code == 0
    assert (
        "pod: the listener true gets no more events: it ended with exit code 0"
        in capfd.readouterr().err
    )


async def test_a_command_that_hangs_is_ended_with_the_run(short: Path) -> None:
    started = trio.current_time()

    code = await run(short, '[[listeners]]\ncommand = ["sleep", "1000"]')

    assert code == 0
    assert trio.current_time() - started < 30


async def test_a_socket_gets_the_lines(short: Path) -> None:
    got: list[bytes] = []
    with trio.socket.socket(trio.socket.AF_UNIX) as socket:
        await socket.bind(str(short / "l.sock"))
        socket.listen(1)
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                client, _ = await socket.accept()
                with client:
                    while data := await client.recv(65_536):
                        got.append(data)

            nursery.start_soon(read)
            code = await run(
                short, '[[listeners]]\nsocket = "l.sock"\ntypes = ["init", "result"]'
            )

    assert code == 0
    assert types(b"".join(got)) == ["init", "result"]


async def test_a_socket_that_nobody_listens_on_is_told_once_and_costs_nothing(
    short: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = await run(short, '[[listeners]]\nsocket = "none.sock"')

    assert code == 0
    told = [line for line in capfd.readouterr().err.splitlines() if "none.sock" in line]
    why = "[Errno 2] No such file or directory; trying again"
    assert told == [f"pod: the listener none.sock takes nothing: {why}"]


@pytest.mark.parametrize(
    ("listener", "why"),
    [
        ('file = "work/a"', "lies in the write root"),
        ('command = ["work/a.sh"]', "lies in the write root"),
        ('command = ["no-such-program"]', "no-such-program"),
        ('file = "a"\nsocket = "b"', "set together with file: keep one of them"),
        ('types = ["result"]', "name a file, a command or a socket"),
        ('file = "a"\ntypes = ["resutl"]', 'did you mean "result"?'),
    ],
)
async def test_what_cannot_be_a_listener_is_refused_before_a_run(
    short: Path, listener: str, why: str
) -> None:
    found = loaded(short, f"[[listeners]]\n{listener}", roots=["."])
    (short / "work" / "a.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (short / "work" / "a.sh").chmod(0o755)

    with pytest.raises(ManifestError) as caught:
        await run_loaded(found, short / "work", Options(quiet=True), "go", None)

    assert why in str(caught.value)


def test_a_manifest_with_commands_may_not_lie_where_the_model_writes(
    short: Path,
) -> None:
    (short / "pod.toml").write_text(
        MANIFEST.format(folder="/nowhere") + '[[listeners]]\ncommand = ["true"]',
        "utf-8",
    )
    found = load(None, [], short)

    with pytest.raises(ManifestError, match="a manifest with commands may not lie"):
        trio.run(run_loaded, found, short, Options(quiet=True), "go", None)


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
def test_only_a_plain_file_is_appended_to(short: Path, what: str) -> None:
    path = short / "there"
    match what:
        case "link":
            path.symlink_to(short / "target")
        case "fifo":
            os.mkfifo(path)
        case _:
            path.mkdir()

    with pytest.raises(SetupError, match=r"^\[\[listeners\]\] file: "):
        open_for_lines(path)
