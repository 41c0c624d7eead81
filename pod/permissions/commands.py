"""Where one shell command ends and the next begins, on the safe side.

A rule that allows ``git *`` must not let ``git status; rm -rf /`` through, so a
command line is taken apart before rules look at it. This is no shell parser:
what it is not sure of, it calls unclear, and then no pattern allows it. It may
well find more parts than there are; each of them has to be allowed.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

MOST_CHARACTERS = 100_000
"""A longer command line is unclear: nobody wrote a rule for it."""


class Command(Struct, frozen=True):
    """A command line. *parts* are the commands in it, at least one.

    With *is_unclear* there may be commands in it that are not among the parts,
    or files that are written: it holds a substitution, a redirection, a
    comment, a quote without an end, or is too long.
    """

    text: str
    parts: tuple[str, ...]
    is_unclear: bool


def split_command(text: str) -> Command:
    """Take a command line apart at ``; & |``, line ends and parentheses.

    Not inside of quotes, as long as it is certain what is inside: ``$(`` and a
    backtick make it unclear even in single quotes, since some builtins
    (``test -v``, ``let``) evaluate their arguments once more.
    """
    text = text.strip(_BLANKS)
    if len(text) > MOST_CHARACTERS:
        return Command(text, (text,), is_unclear=True)
    plain = _HARMLESS.sub(" ", text)
    if _SUBSTITUTION.search(plain):
        return Command(text, _pieces(text), is_unclear=True)
    parts = _parts(plain)
    if parts is None:
        return Command(text, _pieces(text), is_unclear=True)
    return Command(text, _stripped(parts) or (text,), is_unclear=False)


def _parts(text: str) -> list[str] | None:
    """Split *text* at separators outside of quotes; None where that is not certain."""
    parts = [""]
    quote = ""
    previous = " "  # the character a "#" would stand behind
    characters = iter(text)
    for character in characters:
        if quote:
            quote = "" if character == quote else quote
            parts[-1] += character
            if character == "\\" and quote == '"':
                parts[-1] += next(characters, "")
        elif character == "\\":
            escaped = next(characters, "")
            parts[-1] += character + escaped
            if escaped == "\n":  # both are taken away: what is before them counts
                continue
        elif character in "<>" or (character == "#" and previous in _BEFORE_COMMENT):
            return None
        elif character in _SEPARATORS:
            parts.append("")
        else:
            quote = character if character in "\"'" else ""
            parts[-1] += character
        previous = character
    return None if quote else parts


_BLANKS = " \t\n"
"""What bash takes for blanks; Python strips more."""
_SEPARATORS = ";&|\n()"
_BEFORE_COMMENT = " \t" + _SEPARATORS

# What parts words is named one by one: "\\s" is more than bash takes for a blank.
_HARMLESS = re.compile(
    r"(?<![^ \t\n;&|(])(?:2>&1|[12&]?>{1,2}/dev/null|</dev/null)(?![^ \t\n;&|)])"
)
"""Redirections that write no file."""

_SUBSTITUTION = re.compile(r"\$[({\['\"]|`")
"""``$(…)``, ``${…}`` (which may hold another), ``$[…]``, ``$'…'`` with escapes of
its own."""

_ANYWHERE = re.compile(r"[;&|\n()`<>]|\$[({]")


def _pieces(text: str) -> tuple[str, ...]:
    """Take *text* apart wherever a command could begin, in quotes, too."""
    return _stripped(_ANYWHERE.split(text)) or (text,)


def _stripped(parts: list[str]) -> tuple[str, ...]:
    return tuple(stripped for part in parts if (stripped := part.strip(_BLANKS)))


# What a value is made of excludes each other (a quote that is not closed is a
# character), or a value of many quotes would be tried in every way there is. A
# possessive group would say that, too, but CPython 3.11 before 3.11.5 matches
# those wrongly (gh-106052): "if docker" began with "if do".
_ONE_BEFORE = re.compile(
    r"(?:[A-Za-z_]\w*+="
    r"(?:'[^']*+'|\"[^\"]*+\"|[^\s'\"]|'(?![^']*+')|\"(?![^\"]*+\"))*"
    r"|!|\{|if|then|else|elif|while|until|do|time|command|builtin|exec|nohup|env"
    r"|sudo|nice)\s+"
)


def _parted(part: str) -> tuple[str, str]:
    """Return what of *part* stands before a command's name, and the rest."""
    at = 0
    while found := _ONE_BEFORE.match(part, at):
        at = found.end()
    return part[:at], part[at:]


def bare(part: str) -> str:
    """Return *part* without what may stand before a command's name.

    Assignments, words of the shell's, ``sudo``, ``env``, and the folder of the
    program: ``A=1 sudo /bin/rm x`` is ``rm x``. For rules that forbid; one that
    allows a command does not allow it with all of this in front.
    """
    _, rest = _parted(part)
    name, space, arguments = rest.partition(" ")
    return name.rpartition("/")[2] + space + arguments


_CARRIERS = frozenset(
    [
        "bash",
        "busybox",
        "chroot",
        "command",
        "coproc",
        "dash",
        "doas",
        "env",
        "eval",
        "exec",
        "find",
        "function",
        "ionice",
        "ksh",
        "nice",
        "nohup",
        "parallel",
        "setsid",
        "sh",
        "ssh",
        "stdbuf",
        "strace",
        "su",
        "sudo",
        "time",
        "timeout",
        "unshare",
        "watch",
        "xargs",
        "zsh",
    ]
)
"""Programs, and words of the shell's, whose arguments may be another command."""

MOST_WORDS = 64
"""Words of a carrier at which another command is looked for."""

_QUOTING = re.compile(r"\\\n|\\(.)|['\"]", re.DOTALL)
_BETWEEN = re.compile(r"[ \t\n]+")
_BETWEEN_CARRIED = re.compile(r"[ \t\n;&|()`<>]+")


def readings(part: str) -> Iterator[str]:
    """Yield what one command may mean, for rules that forbid.

    As it is written; with one blank between words, and without quotes; without
    what stands before its name; and what `sudo -u x`, `xargs`, ``bash -c "…"``
    and the like would run.
    """
    unquoted = _QUOTING.sub(r"\1", part)
    plain = _BETWEEN.sub(" ", unquoted).strip(" ")
    yield from (part, bare(part), plain)
    yield bare(plain)
    before, rest = _parted(plain)
    in_front = [*before.split(), rest.partition(" ")[0]]
    if not _CARRIERS.isdisjoint(word.rpartition("/")[2] for word in in_front):
        words = [word for word in _BETWEEN_CARRIED.split(unquoted) if word]
        for at in range(min(len(words), MOST_WORDS)):
            yield bare(" ".join(words[at:]))
