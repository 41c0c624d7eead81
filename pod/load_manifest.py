"""Reading the manifest, and the prompt file that it names."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from pod.manifest import Manifest
from pod.manifest_errors import ManifestError
from pod.merge import Source, merge
from pod.toml_document import TomlError, decoded
from pod.toml_text import printable

MANIFEST = "pod.toml"
"""The manifest of a folder, read when no other is named."""
MOST_BYTES = 1_000_000
"""A larger file was meant for something else (or is a device without an end)."""


class Loaded(Struct, frozen=True):
    """A manifest as it counts.

    *sources* has the source of every value by dotted key (``model.id``).
    *folder* is where the files it names are, absolute; *path* is the file
    itself, absolute, or None where there is none.
    """

    manifest: Manifest
    sources: dict[str, Source]
    folder: Path
    path: Path | None

    def beside(self, name: str) -> Path:
        """Return the absolute path of a file that the manifest names."""
        return resolved(name, self.folder)

    @property
    def session_dir(self) -> Path | None:
        """Where the manifest wants its sessions; None: the platform's state folder."""
        name = self.manifest.session.dir
        return None if name is None else self.beside(name)


def load(path: Path | None, overrides: Sequence[str], cwd: Path) -> Loaded:
    """Load the manifest *path* and lay *overrides* (``table.key=value``) over it.

    Without a path: pod.toml in *cwd* where there is one, else the defaults.
    Raises ManifestError with every problem that there is.
    """
    if path is None and not os.path.lexists(cwd / MANIFEST):
        merged = merge(None, "", overrides)
        return Loaded(merged.manifest, merged.sources, cwd.absolute(), None)
    named = path or Path(MANIFEST)
    file = resolved(str(named), cwd)
    merged = merge(_read(file, str(named)), str(named), overrides)
    return Loaded(merged.manifest, merged.sources, file.parent, file)


def system_text(loaded: Loaded, builtin: str) -> str:
    """Return the system prompt: the manifest's or *builtin*, and what it appends.

    Raises ManifestError where system_file cannot be read or is blank.
    """
    prompt = loaded.manifest.prompt
    text = builtin if prompt.system is None else prompt.system
    if prompt.system_file is not None:
        try:
            text = _prompt_file(loaded.beside(prompt.system_file))
        except ManifestError as error:
            place = loaded.sources["prompt.system_file"].place
            raise ManifestError(
                [f"{place}: [prompt] system_file: {line}" for line in error.lines]
            ) from error
    return text if prompt.append is None else f"{text}\n\n{prompt.append}"


def _prompt_file(file: Path) -> str:
    shown = printable(str(file))
    try:
        text = decoded(_read(file, str(file))).replace("\r\n", "\n").rstrip()
    except TomlError as error:
        at = error.position
        raise ManifestError([f"{shown}:{at.line}:{at.column}: {error}"]) from error
    if not text:
        raise ManifestError([f"{shown}: a blank file; write a prompt or name no file"])
    return text


def resolved(name: str, folder: Path) -> Path:
    """Return *name* as an absolute path: relative to *folder*, ``~`` is home."""
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # ~nobody-of-that-name
        path = Path(name)
    return (folder / path).absolute()


def _read(file: Path, name: str) -> bytes:
    shown = printable(name)
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_BYTES + 1)
    except IsADirectoryError as error:
        raise ManifestError([f"{shown}: a folder, not a file"]) from error
    except FileNotFoundError as error:
        raise ManifestError([f"{shown}: no such file"]) from error
    except OSError as error:
        reason = error.strerror or errno.errorcode.get(error.errno or 0, "unreadable")
        raise ManifestError([f"{shown}: cannot be read: {reason}"]) from error
    if len(raw) > MOST_BYTES:
        raise ManifestError([f"{shown}: more than {MOST_BYTES:,} bytes"])
    return raw
