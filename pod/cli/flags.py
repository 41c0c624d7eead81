"""Flags that several commands have."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

SessionId = Annotated[
    str, Parameter(help="Its id, or enough of it to tell it from others.")
]
ManifestPath = Annotated[
    Path | None,
    Parameter(
        name=["--manifest", "-m"],
        help="The manifest; without it pod.toml in the working folder, if it is there.",
    ),
]
Settings = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--set", "-c"],
        metavar="KEY=VALUE",
        negative=(),
        help="Override a key of the manifest: table.key=value, the value as TOML.",
    ),
]
Folder = Annotated[
    Path | None,
    Parameter(name=["--cd", "-C"], help="Work in this folder instead."),
]
Json = Annotated[
    bool, Parameter(name="--json", negative=(), help="Print JSON for programs.")
]
RefreshPrompt = Annotated[
    bool,
    Parameter(
        negative=(),
        help="Take the manifest's system prompt in place of the session's own.",
    ),
]
Instructions = Annotated[
    str,
    Parameter(metavar="TEXT", help="What the summary should look at in particular."),
]
Quiet = Annotated[
    bool,
    Parameter(
        name=["--quiet", "-q"], negative=(), help="No progress on standard error."
    ),
]


def whole_number(kind: object, tokens: Sequence[Token]) -> int:
    """Read a whole number. Raises ValueError for 1.5, which cyclopts would round."""
    text = tokens[0].value
    if not re.fullmatch(r"[+-]?[0-9][0-9_]*", text):
        raise ValueError(f'"{text}" is no whole number.')
    return int(text)


@Parameter(name="*")
@dataclass(frozen=True)  # cyclopts takes no msgspec Struct apart
class Workplace:
    """Where a command works, and by which manifest: flags that most commands have."""

    manifest: ManifestPath = None
    settings: Settings = ()
    cd: Folder = None


HERE = Workplace()
"""The folder the process was started in, and the manifest there, if there is one."""
