r"""Letting ripgrep sort out the files in which nothing can match.

What a pattern means is decided by Python's `re` alone, so that a search
gives the same with and without ripgrep. ripgrep gets a looser pattern, which
matches at least wherever the real one does, and names the files that are
worth a look.
"""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence

from tools.programs import find_program

BATCH_FILES = 500
"""Their names fit on a command line (128 KiB for one) in all but odd cases."""

# One character as Python sees it: up to four bytes, or some that are invalid
# and became one U+FFFD.
_ANY = r"(?-u:[^\n]{1,4})"
_BEYOND_ASCII = r"[\x80-\xff]{1,4}"
_CLASSES = {
    "d": rf"(?-u:[0-9]|{_BEYOND_ASCII})",
    "w": rf"(?-u:[0-9A-Za-z_]|{_BEYOND_ASCII})",
    "s": rf"(?-u:[\t\x0b-\r\x1c-\x20]|{_BEYOND_ASCII})",
}
_TOKEN = re.compile(
    r"\\(?P<kind>[wds])"
    r"|(?P<any>\\[WDS]|\.)"
    r"|(?P<nothing>\\[bBAZ]|[\^$])"
    r"|(?P<plain>\\[ -/:-@\[-`{-~])"
    r"|(?P<set>\[[A-Za-z0-9_ ](?:[A-Za-z0-9_ ]|-(?=[A-Za-z0-9]))*\])"
    r"|(?P<anyset>\[\^?\]?(?:[^\]\\]|\\.)*\])"
    r"|(?P<same>\\t|\((?!\?)|\(\?:|[*+?]|\{\d+(?:,\d*)?\}|[|)])"
    r"|(?P<brace>\{(?!\d*,?\d*\})|[}\]])"
    r"|(?P<open>\(\?P<\w+>)"
    r"|(?P<char>[^\\\[\](){}*+?.^$|\n\ufffd])",
    re.DOTALL,
)


def loosened(pattern: str, *, ignore_case: bool) -> str | None:
    """Return a pattern of ripgrep's that finds at least what *pattern* finds.

    *pattern* is a valid one of Python's. None where there is something in it
    that is not understood here (lookaround, references, flags).
    """
    pieces = []
    index = 0
    while index < len(pattern):
        token = _TOKEN.match(pattern, index)
        if token is None:
            return None
        pieces.append(_loosened(token, ignore_case))
        index = token.end()
    return "".join(pieces)


def _loosened(token: re.Match[str], ignore_case: bool) -> str:
    text = token[0]
    match token.lastgroup:
        case "kind":
            return _CLASSES[token["kind"]]
        case "nothing":
            return "(?:)"
        case "same":
            return text
        case "open":
            return "(?:"
        case "plain":
            return _literal(text[1], ignore_case)
        case "char" | "brace":
            return _literal(text, ignore_case)
        case "set" if not ignore_case:
            return text
        case _:
            return _ANY


def _literal(char: str, ignore_case: bool) -> str:
    # The two engines pair some letters differently: i with those of Turkish,
    # and more beyond ASCII.
    if ignore_case and (char in "iI" or not char.isascii()):
        return _ANY
    if char.isascii() and not char.isalnum():
        return f"\\x{ord(char):02x}"
    return char


def worth_a_look(
    paths: Iterable[str], rg: str, pattern: str, *, ignore_case: bool
) -> Iterator[str]:
    """Yield those of *paths* in which *pattern* (of ripgrep's) matches.

    They are relative to this process' working folder. Where ripgrep fails,
    the files it should have looked at are all worth a look.
    """
    for batch in batched_paths(paths):
        named = _ask(batch, rg, pattern, ignore_case)
        yield from batch if named is None else [p for p in batch if p in named]


def batched_paths(paths: Iterable[str]) -> Iterator[Sequence[str]]:
    batch: list[str] = []
    for path in paths:
        batch.append(path)
        if len(batch) == BATCH_FILES:
            yield batch
            batch = []
    if batch:
        yield batch


def _ask(
    paths: Sequence[str], rg: str, pattern: str, ignore_case: bool
) -> set[str] | None:
    command = [rg, "--no-config", "--files-with-matches", "--null", "--text"]
    command += ["--no-messages", "--no-ignore", "--hidden", "--color=never"]
    command += ["--ignore-case"] if ignore_case else ["--case-sensitive"]
    # "./": a file named "-" is not standard input.
    command += [f"--regexp={pattern}", "--", *(f"./{path}" for path in paths)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError:
        return None
    if done.returncode not in (0, 1):
        return None
    names = os.fsdecode(done.stdout).split("\0")
    return {name.removeprefix("./") for name in names}


def find_rg(write_roots: Sequence[str]) -> str | None:
    """Find ripgrep on PATH; not below *write_roots*, where a model may have put it."""
    return find_program("rg", outside=write_roots)
