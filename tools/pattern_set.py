"""The ``[…]`` of file name patterns, as git's wildmatch.c reads it."""

import re
from types import MappingProxyType

_CLASSES = MappingProxyType(
    {
        "alnum": "0-9A-Za-z",
        "alpha": "A-Za-z",
        "blank": r" \t",
        "cntrl": r"\x00-\x1f\x7f",
        "digit": "0-9",
        "graph": r"\x21-\x7e",
        "lower": "a-z",
        "print": r"\x20-\x7e",
        "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
        "space": r" \t-\r",
        "upper": "A-Z",
        "xdigit": "0-9A-Fa-f",
    }
)
_CLASS = re.compile(r"\[:([^\]]*):\]")
_NOTHING = "(?!)"


def read_set(part: str, index: int) -> tuple[str, int] | None:
    """Translate the set that begins at *index*, behind its "[".

    Return the regular expression and the index behind the "]"; None where there
    is no "]". One right at the beginning belongs to the set; a range the wrong
    way round is its first character alone; a class that is none matches nothing.
    """
    negation = "^/" if part[index : index + 1] in ("!", "^") else ""
    index += len(negation) // 2
    pieces: list[str] = []
    before: str | None = None  # what a range may begin with
    is_known = True
    first = index
    while index < len(part) and (part[index] != "]" or index == first):
        if found := _CLASS.match(part, index):
            is_known = is_known and found[1] in _CLASSES
            pieces.append(_CLASSES.get(found[1], ""))
            before, index = None, found.end()
            continue
        is_range = (
            before is not None
            and part[index] == "-"
            and part[index + 1 : index + 2] not in ("", "]")
        )
        char, index = _char(part, index + is_range)
        if is_range and before is not None:
            if before <= char:
                pieces.append(f"{re.escape(before)}-{re.escape(char)}")
            before = None
        else:
            pieces.append(re.escape(char))
            before = char
    if index >= len(part):
        return None
    if not is_known:
        return _NOTHING, index + 1
    return f"(?!/)[{negation}{''.join(pieces)}]", index + 1


def _char(part: str, index: int) -> tuple[str, int]:
    """Return the character at *index*, a backslash before it read over, and what follows."""
    if part[index] == "\\" and index + 1 < len(part):
        index += 1
    return part[index], index + 1
