"""What the command line was asked for, as values."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from pod.entries import Mode as Mode
from pod.manifest import PermissionMode as PermissionMode

ExportFormat = Literal["md", "json", "atif", "pi"]
OutputFormat = Literal["text", "json", "stream-json"]


class Options(Struct, frozen=True):
    """What was asked for on the command line."""

    prompt: str | None = None
    manifest: Path | None = None
    settings: tuple[str, ...] = ()
    cd: Path | None = None
    resume: str | None = None
    newest: bool = False
    fork: bool = False
    at: str | None = None
    ephemeral: bool = False
    refresh_prompt: bool = False
    output_format: OutputFormat = "text"
    partial: bool = False
    answer_file: Path | None = None
    quiet: bool = False
