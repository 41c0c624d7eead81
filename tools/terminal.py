r"""What a terminal would show of text that moves back in its line (\r)."""

import re

from tools.text import clean

_ERASE = re.compile(r"\x1b\[[02]?K")


def displayed(text: str) -> str:
    r"""Return *text* with each line as it looks in the end.

    A progress bar that redraws itself with \r leaves its last state, and
    what the last state did not cover, unless it erased the line. Escape
    sequences of such lines are taken out; other lines stay as they are.
    """
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(_redrawn(line) if "\r" in line else line for line in lines)


def _redrawn(line: str) -> str:
    shown = ""
    for part in line.split("\r"):
        written = clean(part).text
        covered = len(shown) if _ERASE.search(part) else len(written)
        shown = written + shown[covered:]
    return shown
