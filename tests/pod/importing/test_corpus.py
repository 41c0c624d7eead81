"""Real sessions: each is imported whole, or refused with one line.

What the corpus's own index counts is counted again by the import. Where the two
differ, a rule below names the kind of reason; none names a file.
"""

import json
from hashlib import sha256

import msgspec
import pytest

from pod.importing.importer import Imported
from tests.corpus import corpus
from tests.pod.conftest import Corpus
from tests.pod.importing.corpus_rows import FOLDERS, MEASURED, ROWS, Features, Row
from tests.pod.importing.imports import compactions, entries_of, shown, wrongs


@pytest.mark.parametrize("name", [row.file for row in ROWS] or ["sessions"])
def test_every_file_is_imported_whole_or_refused_with_one_line(
    name: str, imported: Corpus
) -> None:
    done = imported(name)

    if isinstance(done, str):
        assert done.strip()
        assert "\n" not in done
        assert len(done) < 300
    else:
        assert wrongs(entries_of(done)) == []


def test_of_the_formats_that_can_be_imported_only_what_is_no_session_is_refused(
    imported: Corpus,
) -> None:
    names = [row.file for row in ROWS if row.file.split("/")[1] in FOLDERS]
    reasons = [done for name in names if isinstance(done := imported(name), str)]

    kinds = {
        "a file of Codex without any message in it",  # rate limits, usage, one event
        "the event stream of codex exec --json",
        'it begins with {\\n\\t"role": "assistant"',  # a single message of pi's
        # Lines with a role at the top: no version of Codex writes them.
        ',"role":"user",',
        # A single line that is no part of a conversation.
        'it begins with {"type": "queue-operation"',
        'it begins with {"type": "file-history-snapshot"',
        'it begins with {"parentUuid": ',
    }
    assert [one for one in reasons if not any(kind in one for kind in kinds)] == []


@pytest.mark.parametrize("row", MEASURED or [Row("sessions")], ids=lambda row: row.file)
def test_the_counts_are_the_indexs_or_differ_by_a_named_rule(
    row: Row, imported: Corpus
) -> None:
    done = imported(row.file)
    if isinstance(done, str):  # nothing in it that counts
        assert row.features == Features(entries=row.features.entries)
        return
    mine = counted(done)

    lines = [line for line in corpus(row.file).read_bytes().split(b"\n") if line]
    theirs = by_the_rules(row.features, done.origin.agent, lines)

    assert mine == theirs


def counted(done: Imported) -> dict[str, int]:
    """Return the import's own counts, by the index's names."""
    tally = done.tally
    return {
        "entries": tally.lines,
        "bad_lines": tally.bad_lines,
        "tool_calls": tally.tool_calls,
        "compactions": tally.compactions,
        "unanswered": tally.unanswered,
        "parallel": tally.parallel,
        "thinking": tally.thinking,
        "tool_errors": tally.tool_errors,
        "images": tally.images,
        "sidechain": tally.side,
    }


def by_the_rules(features: Features, agent: str, lines: list[bytes]) -> dict[str, int]:
    """Return what the index counts, as the import counts it."""
    theirs: dict[str, int] = msgspec.to_builtins(features)
    # A whole record with the rest of another glued to it: the index passes the
    # line over, the import reads the record.
    theirs["entries"] += sum(map(begins_with_a_record, filter(is_no_json, lines)))
    # The index takes any JSON for an entry, the import only what has the fields
    # of a record: a message that is a string is none.
    odd = sum(map(is_no_record, lines))
    theirs["entries"] -= odd
    theirs["bad_lines"] += odd
    # The index counts a response of pi's with several calls twice.
    if agent == "pi":
        theirs["parallel"] //= 2
    return theirs


def is_no_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return True
    return False


def begins_with_a_record(line: bytes) -> bool:
    """Whether a line that is no JSON value has one at its start."""
    try:
        json.JSONDecoder().raw_decode(line.decode())
    except ValueError:
        return False
    return True


def is_no_record(line: bytes) -> bool:
    if is_no_json(line):
        return False
    value = msgspec.json.decode(line)
    if not isinstance(value, dict):
        return True
    return isinstance(value.get("message"), str) and "uuid" in value


def whole(done: Imported | str) -> Imported:
    assert isinstance(done, Imported)
    return done


PI = "sessions/pi/pi-mono_before-compaction.jsonl"


def test_pis_long_session_keeps_what_its_compactions_say(imported: Corpus) -> None:
    done = whole(imported(PI))

    assert [one.tokens_before for one in compactions(done)] == [175_004, 185_014]


def test_the_context_of_pis_long_session_is_pinned(imported: Corpus) -> None:
    done = whole(imported(PI))

    items = shown(done)
    roles = "".join(type(item).__name__[0] for item in items)
    assert len(items) == 562
    assert items[0].__class__.__name__ == "SystemText"
    assert sha256(roles.encode()).hexdigest()[:16] == "d28592fd7c424c1d"
