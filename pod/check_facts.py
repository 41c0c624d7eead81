"""Looking up what the check of a manifest has to know."""

import os
import stat
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from pod.check import Facts
from pod.hooks.open_hooks import find_program
from pod.load_manifest import Loaded, resolved
from pod.manifest import ListenerTable
from pod.places import HookFile, Place


def gather(
    loaded: Loaded,
    *,
    cwd: Path,
    state_dir: Path,
    window: int | None,
    unpriced: tuple[str, ...],
    overhead: int = 0,
) -> Facts:
    """Return the facts for ``check``.

    *cwd* is the folder the Pod works in, *state_dir* the folder for session
    logs where the manifest names none. *window* (tokens) is the manifest's model's,
    *overhead* (tokens) of its system prompt and tools; *unpriced* as in Facts.
    """
    manifest = loaded.manifest
    beside = loaded.beside
    system_file = manifest.prompt.system_file
    session_dir = manifest.session.dir
    files = [spec.rpartition(":")[0] for spec in manifest.tools.python]
    return Facts(
        read_roots=_roots(manifest.permissions.read_roots, cwd),
        write_roots=_roots(manifest.permissions.write_roots, cwd),
        session_dir=(
            _place(str(state_dir), state_dir)
            if session_dir is None
            else _place(session_dir, beside(session_dir))
        ),
        manifest=_place(loaded.path.name, loaded.path) if loaded.path else None,
        system_file=_place(system_file, beside(system_file)) if system_file else None,
        python=tuple(_place(file, beside(file)) for file in files),
        steps=_steps(loaded.path) if loaded.path else (),
        hooks=tuple(
            _hook_files(hook.command, hook.python, loaded) for hook in manifest.hooks
        ),
        listeners=tuple(
            _listener_files(listener, loaded) for listener in manifest.listeners
        ),
        window=manifest.model.context_window or window,
        unpriced=unpriced,
        overhead=overhead,
        led_out=tuple(
            _place(name, resolved(name, cwd))
            for name in dict.fromkeys(
                (*manifest.permissions.read_roots, *manifest.permissions.write_roots)
            )
            if _is_led_out(resolved(name, cwd), cwd)
        ),
    )


def _is_led_out(root: Path, cwd: Path) -> bool:
    """Whether *root* lies in *cwd* by its words, and elsewhere by a link."""
    real = os.path.realpath(cwd)
    named = Path(os.path.normpath(root))
    is_named = any(named.is_relative_to(folder) for folder in (cwd, real))
    return is_named and not Path(os.path.realpath(root)).is_relative_to(real)


def _listener_files(table: ListenerTable, loaded: Loaded) -> tuple[HookFile, ...]:
    if table.file is None:
        return _hook_files(table.command, None, loaded)
    file = loaded.beside(table.file)
    return (_hook_file(table.file, file),)


def _hook_files(
    command: tuple[str, ...] | None, python: str | None, loaded: Loaded
) -> tuple[HookFile, ...]:
    """Return what a hook or a listener is made of, as far as its words tell.

    A word behind the program that names a file is taken to be run: `python3
    guard.py`. What lies in folders, or is told in other ways, is not seen.
    """
    if python is not None:
        name = python.rpartition(":")[0]
        return (_hook_file(name, loaded.beside(name)),)
    if command is None:
        return ()
    program, *rest = command
    found = find_program(program, loaded)
    if found is None:
        return (HookFile(Place(program, program, "missing"), ()),)
    first = _hook_file(program, found)
    first = replace(first, is_executable=os.access(found, os.X_OK))
    files = (_hook_file(word, loaded.beside(word)) for word in rest)
    return (first, *(file for file in files if file.place.kind == "file"))


def _hook_file(name: str, path: Path) -> HookFile:
    return HookFile(_place(name, path), _steps(path))


MOST_LINKS = 40
"""Symlinks on one way; the kernel takes no more, either."""


def _steps(path: Path) -> tuple[str, ...]:
    """Return every path that is gone through to *path*, an absolute one.

    Who can write in the folder of any of them can put another file at the end.
    """
    steps: list[str] = []
    ahead, at, links = list(reversed(path.parts[1:])), Path("/"), 0
    while ahead and links <= MOST_LINKS:
        part = ahead.pop()
        if part == "..":
            at = at.parent
            continue
        step = at / part
        steps.append(str(step))
        try:
            target = step.readlink()
        except OSError:  # no link
            at = step
            continue
        links += 1
        at = Path("/") if target.is_absolute() else at
        ahead.extend(reversed(target.parts[target.is_absolute() :]))
    return tuple(steps)


def _roots(names: tuple[str, ...], cwd: Path) -> tuple[Place, ...]:
    return tuple(_place(name, resolved(name, cwd)) for name in names)


def _place(name: str, path: Path) -> Place:
    real = Path(os.path.realpath(path))  # resolve() raises at a loop of symlinks
    return Place(name, str(real), _kind(real))


def _kind(path: Path) -> Literal["file", "folder", "missing"]:
    try:
        mode = path.stat().st_mode
    except OSError:
        return "missing"
    return "folder" if stat.S_ISDIR(mode) else "file"
