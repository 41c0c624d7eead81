"""The folder a command works in, and the manifest that holds there."""

from pathlib import Path

from pod.cli.failing import UsageError
from pod.cli.flags import Workplace
from pod.load_manifest import Loaded, load


def working_folder(cd: Path | None) -> Path:
    """Return *cd*, or the process's folder, with links resolved. Raises UsageError."""
    if cd is None:
        try:
            return Path.cwd().resolve()
        except FileNotFoundError:
            raise UsageError(
                "the folder that this was started in is gone: change to another one,"
                " or name one with --cd"
            ) from None
    if not cd.is_dir():
        raise UsageError(f"--cd {cd}: there is no such folder")
    return cd.resolve()


def load_in(place: Workplace) -> tuple[Path, Loaded]:
    """Return the working folder and the manifest of *place*.

    Raises UsageError and ManifestError.
    """
    cwd = working_folder(place.cd)
    return cwd, load(place.manifest, place.settings, cwd)
