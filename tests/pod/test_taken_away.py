"""A log that others delete, replace or write to while a session goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from pod.cli.options import Options
from pod.cli.run import run_loaded
from pod.errors import LogFailed
from pod.load_manifest import load
from pod.log import read_log
from pod.session import Session
from tests.pod.logs import HEADER, said, talk, written
from worker.items import UserText
from worker.model import Model
from worker.policy import Echo
from worker.scripted import ScriptedClient


class Line(Struct, frozen=True):
    """What the tests look at in an event."""

    type: str
    id: str | None = None
    reason: str = ""
    message: str = ""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session.create(tmp_path / "sessions" / "s1.jsonl", HEADER)
    session.append(said("one"), said("two"))
    return session


def texts(path: Path) -> list[str]:
    with Session.open(path) as session:
        return [item.text for item in session.items if isinstance(item, UserText)]


def _deleted(path: Path) -> None:
    path.unlink()


def _with_its_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("take", [_deleted, _with_its_folder], ids=lambda f: f.__name__)
def test_a_log_that_was_deleted_is_put_back_and_nobody_is_told_of_more(
    take: Callable[[Path], None], session: Session
) -> None:
    path = session.path
    assert path is not None
    told: list[str] = []
    session.on_entry = lambda entry: told.append(entry.id)
    take(path)

    with pytest.raises(LogFailed) as caught:
        session.append(said("three"))
    with pytest.raises(LogFailed, match="was deleted"):
        session.last_words(said("four"))
    session.close()

    assert str(caught.value) == (
        f"{path} was deleted, or replaced, while it was in use: what it held was"
        f" written to {path}"
    )
    assert told == []
    assert texts(path) == ["one", "two"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["s1.jsonl"]


def test_what_another_file_took_the_place_of_is_written_beside_it(
    session: Session,
) -> None:
    path = session.path
    assert path is not None
    for place in ("s1.jsonl.rescued", "s1.jsonl.rescued-2"):
        path.with_name("new").write_bytes(written(talk(1)))
        path.with_name("new").replace(path)

        with pytest.raises(LogFailed, match=f"was written to .*{place}$"):
            session.append(said("three"))
        session.close()

        assert texts(path) == ["m1"]
        rescued = read_log(path.with_name(place)).entries
        session = Session.open(path)
        if place == "s1.jsonl.rescued":
            assert len(rescued) == 2
    session.close()


@pytest.mark.parametrize(
    ("change", "has"),
    [
        (lambda data: data[:-10], -10),
        (lambda data: data + b"x", 1),
        (lambda _: b"", None),
    ],
    ids=["cut", "longer", "empty"],
)
def test_a_log_that_others_write_to_is_not_written_to_any_more(
    change: Callable[[bytes], bytes], has: int | None, session: Session
) -> None:
    path = session.path
    assert path is not None
    before = path.read_bytes()
    size = 0 if has is None else len(before) + has
    with path.open("r+b") as file:
        file.write(change(before))
        file.truncate(size)

    with pytest.raises(LogFailed) as caught:
        session.append(said("three"))
    session.close()

    assert str(caught.value) == (
        f"{path} was changed by another program while it was in use: it has"
        f" {size:,} bytes instead of {len(before):,}"
    )
    assert path.read_bytes() == change(before)


def test_a_log_that_was_renamed_goes_on_under_its_new_name(session: Session) -> None:
    path = session.path
    assert path is not None
    path.rename(path.with_name("other.jsonl"))

    session.append(said("three"))
    session.close()

    assert texts(path.with_name("other.jsonl")) == ["one", "two", "three"]


def test_where_it_cannot_be_put_back_that_is_said(session: Session) -> None:
    path = session.path
    assert path is not None
    shutil.rmtree(path.parent)
    path.parent.write_bytes(b"a file")

    with pytest.raises(LogFailed, match=r"held is lost, .* \(Not a directory\)$"):
        session.append(said("three"))
    session.close()


async def test_a_run_whose_tool_deletes_the_sessions_ends_and_can_be_resumed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    settings = (
        'model.provider="scripted"',
        'model.id="echo"',
        'session.dir="../sessions"',
        'sandbox.mode="off"',
    )
    command = "test -e kept || { touch kept; rm -rf ../sessions; }"
    model = Model(provider="scripted", id="echo", window=None, max_tokens=32_000)
    policy = Echo("bash", times=2, arguments=f'{{"command": "{command}"}}')

    async def run(options: Options, prompt: str | None) -> int:
        loaded = load(None, settings, work)
        client = lambda: ScriptedClient(policy, model)  # noqa: E731
        return await run_loaded(loaded, work, options, prompt, client)

    code = await run(Options(output_format="stream-json", quiet=True), "go")
    out = capfd.readouterr().out
    lines = [msgspec.json.decode(line, type=Line) for line in out.splitlines()]
    (log,) = (tmp_path / "sessions").glob("*.jsonl")

    assert code == 1
    assert [line.type for line in lines if line.type == "result"] == ["result"]
    assert lines[-1].reason == "log_failed"
    assert "was deleted, or replaced, while it was in use" in lines[-1].message
    kept = {entry.id for entry in read_log(log).entries}
    told = {line.id for line in lines[1:]}
    assert len(told) > 4
    assert told - kept == {None}  # its end, which the next opening writes

    code = await run(Options(resume=log.stem, quiet=True), None)
    assert code == 0, capfd.readouterr().err
    assert capfd.readouterr().out == "Done after 2 calls.\n"
