"""Any bytes as a file: a refusal in words, or a session that keeps the invariants."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pod.importing.importer import Imported
from tests.pod.importing.imports import (
    Json,
    entries_of,
    taken,
    write_lines,
    wrongs,
)
from tests.pod.importing.wild import (
    claude_code_files,
    codex_files,
    pi_files,
    with_odd_fields,
)

many = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def tried(file: Path, folder: Path) -> Imported | None:
    """Import a file; None if it is refused. Anything else that is raised is a fault."""
    done = taken(file, folder)
    if isinstance(done, str):
        assert "\n" not in done
        return None
    assert wrongs(entries_of(done)) == []
    done.path.unlink()
    return done


@pytest.mark.parametrize("files", [pi_files(), claude_code_files(), codex_files()])
@many
@given(data=st.data())
def test_any_tree_of_records_becomes_a_session_that_is_whole(
    files: st.SearchStrategy[list[Json]], data: st.DataObject, tmp_path: Path
) -> None:
    lines = data.draw(files)

    tried(write_lines(tmp_path / "x.jsonl", lines), tmp_path)


@pytest.mark.parametrize("files", [pi_files(), claude_code_files(), codex_files()])
@many
@given(data=st.data())
def test_fields_of_any_type_cost_at_most_their_record(
    files: st.SearchStrategy[list[Json]], data: st.DataObject, tmp_path: Path
) -> None:
    first, *lines = data.draw(files)
    odd = data.draw(with_odd_fields(lines))

    tried(write_lines(tmp_path / "x.jsonl", [first, *odd]), tmp_path)


@pytest.mark.parametrize("files", [pi_files(), claude_code_files(), codex_files()])
@many
@given(data=st.data())
def test_bytes_that_were_changed_cut_or_put_in_break_nothing_else(
    files: st.SearchStrategy[list[Json]], data: st.DataObject, tmp_path: Path
) -> None:
    file = write_lines(tmp_path / "x.jsonl", data.draw(files))
    found = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(found)))
        length = data.draw(st.integers(0, 40))
        found[at : at + length] = data.draw(
            st.binary(max_size=20) | st.sampled_from([b"\n", b"\0" * 9, b'"', b"{"])
        )
    file.write_bytes(found)

    tried(file, tmp_path)


@many
@given(data=st.binary(max_size=200))
def test_bytes_that_are_nothing_are_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)

    assert tried(file, tmp_path) is None


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"type":"session","id":"x","timestamp":"t","a":' + b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe" * 1000,
        b"",
        b"\n" * 100_000,
    ],
    ids=["arrays", "deep", "objects", "utf-16", "empty", "newlines"],
)
def test_what_no_parser_likes_is_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)

    assert tried(file, tmp_path) is None
