"""The folder a command works in."""

from pathlib import Path

from pod.cli.failing import UsageError


def working_folder(cd: Path | None) -> Path:
    """Return *cd*, or the process's folder, with links resolved. Raises UsageError."""
    if cd is None:
        return Path.cwd().resolve()
    if not cd.is_dir():
        raise UsageError(f"--cd {cd}: there is no such folder")
    return cd.resolve()
