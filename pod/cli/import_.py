"""``pod import``: a session of another agent becomes one of Pod's."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from pod.cli.failing import UsageError
from pod.cli.flags import Workplace
from pod.cli.folder import load_in
from pod.cli.streams import give
from pod.exits import Exit
from pod.importing.format import NotImportable
from pod.importing.importer import Imported, import_file
from pod.path_text import path_text
from pod.setup import system_prompt
from pod.store import Store
from pod.toml_text import printable
from tools.text import counted


def run_import(
    file: Path, place: Workplace, *, folder: Path | None, as_json: bool
) -> int:
    """Import *file*; print what came of it. Raises UsageError for what is no session."""
    cwd, loaded = load_in(place)
    store = Store(folder or loaded.session_dir)
    try:
        done = import_file(
            file,
            store,
            cwd=path_text(cwd),
            system=system_prompt(loaded, cwd),
            pod=loaded.manifest.pod.name,
        )
    except NotImportable as error:
        raise UsageError(f"{printable(str(file))}: {error}") from None
    except FileNotFoundError:
        raise UsageError(f"{printable(str(file))}: no such file") from None
    if as_json:
        give(msgspec.json.encode(_plain(done)).decode() + "\n")
    else:
        give("\n".join(_lines(done)) + "\n")
    return Exit.DONE


class _Plain(msgspec.Struct, frozen=True):
    """What ``--json`` prints."""

    session: str
    path: str
    agent: str
    format: str
    original: str
    counts: dict[str, int]
    not_carried_over: dict[str, int]


def _plain(done: Imported) -> _Plain:
    counts = msgspec.to_builtins(done.tally)
    losses = counts.pop("losses")
    return _Plain(
        session=done.session,
        path=path_text(done.path),
        agent=done.origin.agent,
        format=done.origin.format,
        original=done.origin.session,
        counts=counts,
        not_carried_over=losses,
    )


def _lines(done: Imported) -> Iterator[str]:
    tally = done.tally
    format = f" (format {done.origin.format})" if done.origin.format else ""
    yield f"session {done.session}, imported from {done.origin.agent}{format}"
    said = [
        counted(tally.lines, "record"),
        counted(tally.user_messages, "user message"),
        counted(tally.answers, "answer"),
        counted(tally.tool_calls, "tool call"),
        counted(tally.compactions, "compaction"),
    ]
    yield f"read    {', '.join(said)}"
    if tally.losses:
        yield "not as it was:"
        for name, count in tally.losses.items():
            yield f"{count:7,}  {name}"
    yield f"log     {done.path}"
