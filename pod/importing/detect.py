"""Which agent's session a file is, told by its contents alone."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from pod.importing.decode import decoded, repaired
from pod.importing.format import Format, NotImportable, Origin
from pod.importing.pi import Pi
from pod.importing.records import Unreadable
from pod.toml_text import printable

MOST_LINES = 1000
"""Lines that are looked at: what begins otherwise than all others do ends there."""

KNOWN = "pi, oh-my-pi, Claude Code, Codex and SWE-agent"


class _Probe(Struct):
    """The fields by which formats differ."""

    type: str | None = None
    version: Raw = Raw(b"")
    format: Raw = Raw(b"")
    id: Raw = Raw(b"")
    timestamp: Raw = Raw(b"")
    cwd: str | None = None


_probe = msgspec.json.Decoder(_Probe)


class Detected(Struct, frozen=True):
    """What a file is."""

    format: Format
    origin: Origin


def detect(heads: Iterable[bytes]) -> Detected:
    """Return what the lines (or the one document) in *heads* are. Raises NotImportable."""
    is_omp = False
    first = b""
    for data in heads:
        data, _ = repaired(data)
        try:
            probe = decoded(data, _probe)
        except Unreadable:
            continue
        first = first or data
        if probe.type == "title":
            is_omp = True
        elif probe.type == "session" and probe.format:
            raise NotImportable(
                "this is a session of Pod already: go on with pod run --resume FILE"
            )
        elif probe.type == "session" and probe.id and probe.timestamp:
            return _pi(probe, is_omp=is_omp)
    if not first:
        raise NotImportable(f"no JSON in it: no session of {KNOWN}")
    begin = printable(first[:60].decode("utf-8", "replace"))
    raise NotImportable(f"no session of {KNOWN}: it begins with {begin}")


def _pi(probe: _Probe, *, is_omp: bool) -> Detected:
    text = bytes(probe.version).decode("ascii", "replace")
    version = int(text) if text.isdecimal() and len(text) < 4 else 1
    if version > 3:
        raise NotImportable(f"format {version} of pi is not known; 1 to 3 are")
    return Detected(
        Pi(version=version),
        Origin(
            agent="oh-my-pi" if is_omp else "pi",
            format=str(version),
            session=_string(probe.id),
            cwd=probe.cwd or "",
            at=_string(probe.timestamp),
        ),
    )


def _string(raw: Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return ""
