"""Text that is put between tags, so that it cannot end them."""

import re

TAGS = (
    "record",
    "transcript",
    "conversation",
    "summary",
    "previous-summary",
    "branch-summary",
    "user-directives",
    "user-message",
    "default-references",
    "file-text",
    "instructions",
    "additional-context",
    "read-files",
    "modified-files",
    "system",
    "system-reminder",
    "function_calls",
    "function_results",
)
"""The tags that bound a part of a prompt of ours, and those a model may take for it."""

_TAG = re.compile(rf"<(?=\s*+/?\s*+(?:{'|'.join(TAGS)})(?![\w-]))", re.IGNORECASE)


def escape(text: str) -> str:
    """Return *text* with every ``<`` that begins one of TAGS as ``&lt;``."""
    return _TAG.sub("&lt;", text)


def unescape(text: str) -> str:
    """Return *text* as it was before escape, for comparing."""
    return text.replace("&lt;", "<")
