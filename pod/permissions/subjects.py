"""What of a call's arguments a rule's pattern is matched with."""

import posixpath
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from pod.permissions.commands import split_command
from pod.permissions.rules import Paths, Subject, Text
from tools.scope import PATH_BYTES


class _Fields(Struct, frozen=True):
    """The arguments that say what a call is about, the first that is there counts."""

    command: Raw = Raw()
    file_path: Raw = Raw()
    path: Raw = Raw()
    pattern: Raw = Raw()
    query: Raw = Raw()
    url: Raw = Raw()


def subject_of(
    arguments: str, *, cwd: str, resolve: Callable[[str], str] | None = None
) -> Subject:
    """Return what a call with *arguments* (JSON) is about.

    That is the first text among command, file_path, path, pattern, query and
    url, else the arguments themselves, as JSON without blanks. A path is told
    from *cwd* (absolute); *resolve* says where the links of an absolute path
    lead, and may block.
    """
    try:
        fields = msgspec.json.decode(arguments.encode(), type=_Fields)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return Text(arguments)
    for name in _Fields.__struct_fields__:
        text = _text(getattr(fields, name))
        if text is None:
            continue
        if name == "command":
            return split_command(text)
        if name in ("file_path", "path"):
            return _paths(text, cwd, resolve)
        return Text(text)
    return Text(msgspec.json.format(arguments, indent=-1))


def _text(raw: Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return None


def _paths(text: str, cwd: str, resolve: Callable[[str], str] | None) -> Paths:
    whole = posixpath.normpath(posixpath.join(cwd, text))
    absolute = "/" + whole.lstrip("/")
    named = _names(absolute, cwd)
    if resolve is None or "\0" in text or len(absolute) > PATH_BYTES:
        return Paths(named)  # nothing can be opened by such a name
    real = resolve(absolute)
    return Paths(named, () if real == absolute else _names(real, cwd))


def _names(absolute: str, cwd: str) -> tuple[str, ...]:
    if absolute == cwd:
        return (".", absolute)
    below = absolute.removeprefix(cwd.rstrip("/") + "/")
    return (absolute,) if below == absolute else (below, absolute)
