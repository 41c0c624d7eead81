"""Looking up what the check of a manifest has to know."""

import os.path
import stat
from pathlib import Path
from typing import Literal

from pod.check import Facts, Place
from pod.load_manifest import Loaded, resolved


def gather(
    loaded: Loaded,
    *,
    cwd: Path,
    state_dir: Path,
    window: int | None,
    is_price_known: bool,
    overhead: int = 0,
) -> Facts:
    """Return the facts for ``check``.

    *cwd* is the folder the Pod works in, *state_dir* the folder for session
    logs where the manifest names none. *window* (tokens) and *is_price_known*
    are of the manifest's model, *overhead* (tokens) of its system prompt and tools.
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
        window=manifest.model.context_window or window,
        is_price_known=is_price_known,
        overhead=overhead,
    )


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
