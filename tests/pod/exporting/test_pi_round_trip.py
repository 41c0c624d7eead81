"""What is exported for pi comes back as the same context."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

from pod.context import context
from pod.entries import AnyEntry, Header
from pod.exporting import pi
from pod.exporting.source import exported
from pod.log import read_undamaged
from pod.tree import Tree
from tests.pod.conftest import Corpus
from tests.pod.exporting.sessions import sessions
from tests.pod.importing.corpus_rows import FOLDERS, ROWS
from tests.pod.importing.imports import entries_of, shown, take, wrongs
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


def written(header: Header, entries: Sequence[AnyEntry], file: Path) -> Path:
    lines = pi.lines(exported(header, entries))
    file.write_text("".join(lines), encoding="utf-8")
    return file


def renamed(items: Sequence[Item]) -> list[Item]:
    """Name responses and calls by their order: their names say nothing.

    Images without data go: nobody could see them.
    """
    responses: dict[str, str] = {}
    calls: dict[str, str] = {}

    def response(name: str) -> str:
        return responses.setdefault(name, f"r{len(responses)}")

    def call(name: str) -> str:
        return calls.setdefault(name, f"c{len(calls)}")

    found: list[Item] = []
    for item in items:
        match item:
            case AssistantText() | Reasoning() | Opaque():
                found.append(replace(item, response=response(item.response)))
            case ToolCall():
                found.append(
                    replace(
                        item,
                        response=response(item.response),
                        call_id=call(item.call_id),
                    )
                )
            case ToolResult():
                kept = tuple(image for image in item.images if image.data)
                found.append(replace(item, call_id=call(item.call_id), images=kept))
            case UserText():
                kept = tuple(image for image in item.images if image.data)
                found.append(replace(item, images=kept))
            case SystemText():
                found.append(item)
    return found


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_session_comes_back_with_the_same_context(
    data: st.DataObject, tmp_path: Path
) -> None:
    with data.draw(sessions(tmp_path / "made.jsonl")) as session:
        header, items = session.header, [*session.items]
        entries = read_undamaged(tmp_path / "made.jsonl")[1].entries
    if not items:
        return

    done = take(written(header, entries, tmp_path / "pi.jsonl"), tmp_path)

    assert wrongs(entries_of(done)) == []
    assert renamed(shown(done)) == renamed(items)


@pytest.mark.parametrize(
    "name",
    [row.file for row in ROWS if row.file.split("/")[1] in FOLDERS] or ["sessions"],
)
def test_every_imported_session_comes_back_with_the_same_context(
    name: str, imported: Corpus, tmp_path: Path
) -> None:
    first = imported(name)
    if isinstance(first, str):
        return  # refused: test_corpus.py says which may be

    header, scan = read_undamaged(first.path)
    again = take(written(header, scan.entries, tmp_path / "pi.jsonl"), tmp_path)

    assert wrongs(entries_of(again)) == []
    assert renamed(shown(again)) == renamed(context_of(scan.entries))


def context_of(entries: Sequence[AnyEntry]) -> list[Item]:
    tree = Tree(entries)
    return context(tree.path(tree.leaf))
