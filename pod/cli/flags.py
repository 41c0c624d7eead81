"""Flags that several commands have."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

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
Quiet = Annotated[
    bool,
    Parameter(
        name=["--quiet", "-q"], negative=(), help="No progress on standard error."
    ),
]
