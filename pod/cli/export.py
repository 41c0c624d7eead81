"""``pod export``: a session for people or for other programs."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pod.cli.failing import UsageError
from pod.cli.flags import Workplace
from pod.cli.folder import load_in
from pod.cli.options import ExportFormat
from pod.cli.streams import say
from pod.exits import Exit
from pod.exporting.source import Exported, exported
from pod.load_manifest import Loaded
from pod.log import read_undamaged
from pod.pipe import write_all
from pod.redact import Redaction
from pod.store import Store
from tools.text import counted
from worker.keys import secrets_of

BATCH = 256 * 1024
"""Bytes that are written at once."""


def run_export(
    session: str,
    format: ExportFormat,
    place: Workplace,
    *,
    output: Path | None,
    force: bool,
    redact: bool,
) -> int:
    """Write a session to *output*, or stdout. Raises UsageError and SessionError."""
    _, loaded = load_in(place)
    path = Store(loaded.session_dir).find(session)
    header, scan = read_undamaged(path)
    redaction = Redaction(_secrets(loaded)) if redact else None
    pieces = _pieces(format, exported(header, scan.entries))
    if redaction is not None:
        pieces = map(redaction, pieces)
    if output is None:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            _write(sys.stdout.fileno(), pieces)
    else:
        _to_file(output, pieces, force=force)
    if redaction is not None and redaction.count:
        say(f"pod: {counted(redaction.count, 'secret')} replaced by [redacted]")
    return Exit.DONE


def _secrets(loaded: Loaded) -> Sequence[str]:
    """Return the keys and tokens that this Pod itself uses, wherever they are set."""
    key = os.environ.get(loaded.manifest.model.api_key_env or "")
    return secrets_of(os.environ, key)


def _pieces(format: ExportFormat, session: Exported) -> Iterator[str]:
    match format:
        case "md":
            from pod.exporting import markdown

            return markdown.lines(session)
        case "json":
            from pod.exporting import json

            return json.lines(session)
        case "atif":
            from pod.exporting import atif

            return atif.lines(session)
        case "pi":
            from pod.exporting import pi

            return pi.lines(session)


def _to_file(output: Path, pieces: Iterator[str], *, force: bool) -> None:
    """Write a whole file or none; one that is there stays unless *force*."""
    if output.is_dir():
        raise UsageError(f"{output} is a folder: name a file in it")
    if not output.parent.is_dir():
        raise UsageError(f"{output.parent}: no such folder")
    if os.path.lexists(output) and not force:
        raise UsageError(f"{output} is there already: --force writes over it")
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            _write(fd, pieces)
            os.fsync(fd)
        finally:
            os.close(fd)
        if force:
            beside.replace(output)
        else:
            os.link(beside, output)  # fails where somebody else was faster
            beside.unlink()
    except FileExistsError:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{output} is there already: --force writes over it") from None
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _write(fd: int, pieces: Iterator[str]) -> None:
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        data = piece.encode("utf-8", "replace")
        held.append(data)
        size += len(data)
        if size >= BATCH:
            write_all(fd, b"".join(held))
            held, size = [], 0
    write_all(fd, b"".join(held))
