"""The tools a manifest names, over the folders it allows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pod.disk import failed, make_folder
from pod.errors import SetupError
from pod.load_manifest import Loaded, resolved
from pod.sandbox import Closed, environment_of, told
from tools import file_tools
from tools.base import Tool
from tools.bash import Bash
from tools.sandbox.box import OpenBox
from tools.scope import Scope


@contextmanager
def open_scope(loaded: Loaded, cwd: Path, spill: Path) -> Iterator[Scope]:
    """Open the manifest's roots, and *spill* for reading the long outputs in it.

    Relative roots begin at *cwd*. Raises SetupError for a root that is no folder,
    LogFailed or DiskFull where *spill* cannot be made.
    """
    permissions = loaded.manifest.permissions
    try:
        make_folder(spill)
    except OSError as error:
        raise failed("cannot create", spill, error) from error
    try:
        scope = Scope(
            read_roots=[
                *(resolved(root, cwd) for root in permissions.read_roots),
                spill,
            ],
            write_roots=[resolved(root, cwd) for root in permissions.write_roots],
            cwd=cwd,
        )
    except OSError as error:
        raise SetupError(
            f"[permissions] a root cannot be opened: {error.filename}: {error.strerror}"
        ) from error
    try:
        yield scope
    finally:
        scope.close()
        with suppress(OSError):  # not empty: something was spilled
            spill.rmdir()


def open_tools(
    loaded: Loaded,
    cwd: Path,
    scope: Scope,
    more: Sequence[Tool] = (),
    *,
    box: OpenBox | None = None,
) -> list[Tool]:
    """Return the manifest's tools, the file tools within *scope*, and *more*.

    Commands run in *box*; without one they do not run.

    Raises SetupError for a Python function that cannot be loaded, or a name
    that two tools have.
    """
    builtin = builtin_tools(loaded, cwd, scope, box)
    tools = [*builtin, *_python_tools(loaded), *more]
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise SetupError(
                f"two tools are called {name!r}: rename the function, or leave the"
                " other out of [tools] builtin"
            )
    return tools


def builtin_tools(
    loaded: Loaded, cwd: Path, scope: Scope, box: OpenBox | None = None
) -> list[Tool]:
    """Return the tools of ours that the manifest names."""
    table = loaded.manifest.tools
    tools: list[Tool] = list(file_tools(scope, table.builtin))
    if "bash" in table.builtin:
        tools.append(
            Bash(
                cwd,
                default_timeout=table.bash_timeout,
                environment=environment_of(loaded.manifest, box),
                launcher=box or Closed(),
                told=told(box) if box else "",
            )
        )
    return tools


def _python_tools(loaded: Loaded) -> list[Tool]:
    specs: Sequence[str] = loaded.manifest.tools.python
    if not specs:
        return []
    from tools.python_function import FunctionError, load as load_function

    tools: list[Tool] = []
    for spec in specs:
        try:
            tools.append(load_function(spec, loaded.folder))
        except FunctionError as error:
            raise SetupError(f"[tools] python: {error}") from error
    return tools
