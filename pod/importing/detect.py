"""Which agent's session a file is, told by its contents alone."""

from collections.abc import Iterable
from contextlib import suppress

import msgspec
from msgspec import Raw, Struct

from pod.importing.claude_code import ClaudeCode
from pod.importing.codex import Codex
from pod.importing.decode import decoded, repaired
from pod.importing.format import Format, NotImportable, Origin
from pod.importing.pi import Pi
from pod.importing.records import Unreadable
from pod.importing.swe_agent import SweAgent
from pod.toml_text import printable

MOST_LINES = 1000
"""Lines that are looked at: what begins otherwise than all others do ends there."""

WRAPPED = frozenset({"session_meta", "response_item", "event_msg", "turn_context"})
"""The types of Codex's lines; each has a payload."""

EXPORTED = (b'{"format":"pod-session/', b'{"schema_version":"ATIF-')
"""How Pod's own exports begin that cannot be imported."""

KNOWN = "pi, oh-my-pi, Claude Code, Codex or SWE-agent"


class _Probe(Struct):
    """The fields by which formats differ."""

    type: str | None = None
    version: Raw = Raw(b"")
    format: Raw = Raw(b"")
    id: Raw = Raw(b"")
    timestamp: Raw = Raw(b"")
    cwd: str | None = None
    uuid: str = ""
    sessionId: str = ""
    message: Raw = Raw(b"")
    payload: Raw = Raw(b"")
    instructions: Raw = Raw(b"")
    git: Raw = Raw(b"")
    record_type: str = ""
    thread_id: str = ""
    history: Raw = Raw(b"")
    trajectory: Raw = Raw(b"")
    environment: str | None = None


class _Spoken(Struct):
    """What shows that a message is one of the Messages API's."""

    role: str = ""
    content: Raw = Raw(b"")


class _Meta(Struct):
    """The payload of Codex's first line."""

    id: str = ""
    cwd: str = ""
    timestamp: str = ""
    cli_version: str = ""


_probe = msgspec.json.Decoder(_Probe)
_spoken = msgspec.json.Decoder(_Spoken)
_meta = msgspec.json.Decoder(_Meta)
_history = msgspec.json.Decoder(list[_Spoken])


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
        is_json = data.lstrip()[:1] in {b"{", b"["}
        first = first or (data if is_json else b"")
        try:
            probe = decoded(data, _probe)
        except Unreadable:
            continue
        if probe.type == "title":
            is_omp = True
        elif probe.type == "session" and probe.format:
            raise NotImportable(
                "this is a session of Pod already: go on with pod run --resume FILE"
            )
        elif probe.type == "session" and probe.id and probe.timestamp:
            return _pi(probe, is_omp=is_omp)
        elif (found := _other(probe)) is not None:
            return found
    if not first:
        raise NotImportable(f"no JSON in it: no session of {KNOWN}")
    if first.startswith(EXPORTED):
        raise NotImportable(
            "an export for other programs; what Pod itself can read again is written"
            " by pod export -f pi"
        )
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


def _other(probe: _Probe) -> Detected | None:
    text = _string(probe.version)
    if bytes(probe.history)[:1] == b"[" and _is_history(probe.history):
        origin = Origin(agent="SWE-agent", session=probe.environment or "")
        return Detected(SweAgent(), origin)
    if probe.type in {"user", "assistant"} and probe.uuid and _is_spoken(probe.message):
        origin = Origin(
            agent="Claude Code",
            format=text,
            session=probe.sessionId,
            cwd=probe.cwd or "",
            at=_string(probe.timestamp),
        )
        return Detected(ClaudeCode(), origin)
    if probe.type in WRAPPED and bytes(probe.payload)[:1] == b"{":
        return _codex(probe.payload if probe.type == "session_meta" else None)
    if probe.type is None and probe.id and probe.timestamp and probe.instructions:
        session = _string(probe.id)
        origin = Origin(agent="Codex", session=session, at=_string(probe.timestamp))
        return Detected(Codex(), origin)
    if probe.type == "thread.started" and probe.thread_id:
        raise NotImportable(
            "the event stream of codex exec --json; what can be imported is the"
            " rollout of that session, under ~/.codex/sessions"
        )
    return None


def _codex(payload: Raw | None) -> Detected:
    meta = _Meta()
    if payload is not None:
        with suppress(msgspec.DecodeError, RecursionError):
            meta = _meta.decode(payload)
    return Detected(
        Codex(),
        Origin(
            agent="Codex",
            format=meta.cli_version,
            session=meta.id,
            cwd=meta.cwd,
            at=meta.timestamp,
        ),
    )


def _is_spoken(raw: Raw) -> bool:
    try:
        found = _spoken.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return found.role in {"user", "assistant"} and bool(bytes(found.content))


def _is_history(raw: Raw) -> bool:
    try:
        found = _history.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(found) and all(message.role for message in found)


def _string(raw: Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return ""
