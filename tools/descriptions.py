"""What a model is told about a tool: a text file beside the tool's module."""

from importlib.resources import files


def description_of(name: str) -> str:
    """Return the text of the file *name*.md in this package."""
    return (files("tools") / f"{name}.md").read_text("utf-8").strip()
