"""The folder a command works in, and the manifest that holds there."""

from pathlib import Path

from pod.cli.failing import UsageError
from pod.cli.flags import Workplace
from pod.load_manifest import Loaded, load


def working_folder(cd: Path | None) -> Path:
    """Return *cd*, or the process's folder, with links resolved. Raises UsageError."""
    if cd is None:
        return Path.cwd().resolve()
    if not cd.is_dir():
        raise UsageError(f"--cd {cd}: there is no such folder")
    return cd.resolve()


def load_in(place: Workplace) -> tuple[Path, Loaded]:
    """Return the working folder and the manifest of *place*.

    Raises UsageError and ManifestError.
    """
    cwd = working_folder(place.cd)
    return cwd, load(place.manifest, place.settings, cwd)
