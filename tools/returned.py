"""What a Python function returned, as the output of a tool."""

import reprlib
from collections.abc import Sequence
from pathlib import PurePath

import msgspec

from tools.base import Image, ToolOutput
from tools.text import decode

SUMMARY_LENGTH = 100
LOOKED_AT = 4000
"""Characters in which a first line for the summary is looked for."""


def output_of(name: str, returned: object) -> ToolOutput:
    """Return what the function called *name* returned as text and images.

    A ToolOutput stays what it is, text and bytes are taken as text, anything
    else is shown as JSON, or as its repr where JSON has no word for it.
    Raises TypeError for a ToolOutput with fields of wrong types.
    """
    match returned:
        case None:
            return ToolOutput(summary=f"{name}: done")
        case ToolOutput():
            return _checked(returned)
        case str():
            return _text(name, str.__str__(returned))
        case bytes() | bytearray() | memoryview():
            return _text(name, decode(bytes(returned)))
        case Image():
            return _with_images(name, [returned])
        case [*parts] if _are_words_and_images(parts):
            return _with_images(name, parts)
        case _:
            return _text(name, _shown(returned))


def _checked(output: ToolOutput) -> ToolOutput:
    try:
        return msgspec.convert(msgspec.to_builtins(output), ToolOutput)
    except (msgspec.ValidationError, TypeError) as error:
        raise TypeError(f"the ToolOutput it returned is wrong: {error}") from error


def _text(name: str, text: str) -> ToolOutput:
    start = text[:LOOKED_AT].strip()
    if not start and not text.strip():
        return ToolOutput(summary=f"{name}: returned an empty text")
    line = start.split("\n", 1)[0].strip()
    shortened = line[:SUMMARY_LENGTH] + "…" if len(line) > SUMMARY_LENGTH else line
    return ToolOutput(summary=f"{name}: {shortened}", content=text)


def _are_words_and_images(parts: Sequence[object]) -> bool:
    return any(isinstance(part, Image) for part in parts) and all(
        isinstance(part, str | Image) for part in parts
    )


def _with_images(name: str, parts: Sequence[object]) -> ToolOutput:
    images = tuple(part for part in parts if isinstance(part, Image))
    words = "\n".join(part for part in parts if isinstance(part, str))
    kinds = ", ".join(image.media_type for image in images)
    return ToolOutput(
        summary=f"{name}: {len(images)} image{'s' if len(images) > 1 else ''} ({kinds})",
        content=words or None,
        images=images,
    )


def _shown(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=_encode).decode()
    except Exception:  # noqa: BLE001  unknown types, circles, code of the value's own
        kind = type(value).__name__
        return f"{_repr(value)}\n[the repr of a {kind}, which is not all JSON]"


def _encode(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  a __repr__ may raise anything
        # This one bounds depth and length, and takes care of such objects.
        return reprlib.repr(value)
