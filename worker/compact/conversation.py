"""A history as a text about it: what a model that summarises in one call is given.

A text, not messages: a model that gets them role by role goes on with them.
Every speaker stands at the margin and what he says is indented behind it, so
that nothing said can pass for another speaker; what looks like a tag of ours
is escaped.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from worker.compact.escape import escape
from worker.items import (
    AssistantText,
    Item,
    Opaque,
    Reasoning,
    SystemText,
    ToolCall,
    ToolResult,
    UserText,
)

RESULT_CHARS = 2_000
"""Most characters of a tool's result. Summarisers drown in tool output otherwise;
2 000 is what pi's users settled on."""
ARGUMENT_CHARS = 120
"""Most characters of one argument of a call: a path or a command, no file."""
CALL_CHARS = 500
"""Most characters of all arguments of a call."""

_arguments = msgspec.json.Decoder(dict[str, Raw])


def conversation(items: Iterable[Item]) -> str:
    """Return *items* as text, oldest first, to be put between <conversation> tags."""
    return "\n\n".join(text for item in items if (text := spoken(item)))


def spoken(item: Item) -> str:
    """Return one item as it stands in a conversation, "" for one that is left out.

    Reasoning is left out, and so are blocks that Pod does not know. Of a tool's
    result RESULT_CHARS are given, its beginning and its end.
    """
    match item:
        case UserText(text, images, synthetic):
            # What the runtime wrote is nobody's order, and must not become one.
            who = "System" if synthetic else "User"
            return _said(who, text + " [image]" * len(images))
        case SystemText(text):
            return _said("System", text)
        case AssistantText(text):
            return _said("Assistant", text)
        case ToolCall(name=name, arguments=arguments):
            return _said("Assistant tool call", f"{name}({_short(arguments)})")
        case ToolResult(summary=summary, content=content, images=images):
            label = "Tool error" if item.is_error else "Tool result"
            text = shortened(summary if content is None else content)
            return _said(label, (text or "(empty)") + " [image]" * len(images))
        case Reasoning() | Opaque():
            return ""


def shortened(text: str, most: int = RESULT_CHARS) -> str:
    """Return *text* with at most *most* of its characters, and how many are left out."""
    left_out = len(text) - most
    if left_out <= 0:
        return text
    tail = most // 4
    head, end = text[: most - tail], text[len(text) - tail :]
    return f"{head}\n[… {left_out:,} characters left out …]\n{end}"


def _said(who: str, text: str) -> str:
    lines = text.strip().splitlines()
    return escape(f"[{who}]: " + "\n    ".join(lines)) if lines else ""


def _short(arguments: str) -> str:
    """Return a call's arguments as ``name=value, …``, long ones cut."""
    try:
        fields = _arguments.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _cut(arguments, CALL_CHARS)
    parts = [
        f"{name}={_cut(bytes(value).decode('utf-8', 'replace'), ARGUMENT_CHARS)}"
        for name, value in fields.items()
    ]
    return _cut(", ".join(parts), CALL_CHARS)


def _cut(text: str, most: int) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
