"""Paths as text that can be logged and sent."""

from pathlib import Path


def path_text(path: Path) -> str:
    """Return *path* as text; bytes that are no UTF-8 are shown as escapes."""
    return (
        str(path).encode("utf-8", "surrogateescape").decode(errors="backslashreplace")
    )
