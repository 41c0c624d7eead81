"""Which files git would ignore, by the .gitignore files met on the way.

Written here, since pathspec takes what matches a folder as matching all below
it: after "a" and "!/b" it no longer ignores "b/a". A test asks git itself.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from tools.patterns import to_regex

VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", "CVS"})
"""Names that are always left out: they hold copies of everything."""

MOST_BYTES = 256 * 1024
"""What is read of one .gitignore."""


class IgnoreFile(Struct, frozen=True):
    """A .gitignore above the start: its text, and the way from it to the start.

    *down* ends in "/".
    """

    down: str
    text: str


class _Rule(Struct, frozen=True):
    ignores: bool
    regex: re.Pattern[str]
    folders_only: bool


class _Spec(Struct, frozen=True):
    """The rules of one file, matched against the path from its own folder.

    That is the path from the start, less *dropped* characters or with
    *before* put before it.
    """

    dropped: int
    before: str
    rules: tuple[_Rule, ...]
    """The last line, which counts most, first."""

    def verdict(self, path: str) -> bool | None:
        """Tell whether *path* is ignored, or not, or not spoken of."""
        whole = self.before + path[self.dropped :]
        name = whole.removesuffix("/")
        for rule in self.rules:
            if rule.folders_only and name is whole:
                continue
            if rule.regex.fullmatch(name):
                return rule.ignores
        return None


class Rules:
    """The rules in force in one folder; never changed, only added to."""

    def __init__(self, specs: Sequence[_Spec] = ()) -> None:
        self._specs = tuple(specs)  # the nearest last

    @classmethod
    def above(cls, files: Sequence[IgnoreFile]) -> "Rules":
        """Take the rules of the folders above the start, the outermost first.

        None of them, if they ignore the start itself: somebody wants to see it.
        """
        parsed = [(file.down, _rules(file.text)) for file in files]
        for down, rules in parsed:
            ends = [index + 1 for index, char in enumerate(down) if char == "/"]
            if any(_Spec(0, "", rules).verdict(down[:end]) for end in ends):
                return cls()
        return cls([_Spec(0, down, rules) for down, rules in parsed])

    def below(self, folder: str, text: str) -> "Rules":
        """Return these rules and those of a .gitignore in *folder* ("a/b/" or "")."""
        return Rules([*self._specs, _Spec(len(folder), "", _rules(text))])

    def ignore(self, path: str) -> bool:
        """Tell whether to leave out *path* (from the start; a folder's ends in "/")."""
        for spec in reversed(self._specs):
            verdict = spec.verdict(path)
            if verdict is not None:
                return verdict
        return False


def _rules(text: str) -> tuple[_Rule, ...]:
    rules = [_rule(line) for line in text.split("\n")]
    return tuple(rule for rule in reversed(rules) if rule is not None)


def _rule(line: str) -> _Rule | None:
    """Parse one line, as gitignore(5) says; None if it says nothing."""
    line = line.removesuffix("\r")
    while line.endswith(" ") and not line.endswith("\\ "):
        line = line[:-1]
    if line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    pattern = line if ignores else line[1:]
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern or pattern.endswith("\\") or "." in pattern.split("/"):
        return None
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    return _Rule(ignores, to_regex(pattern), folders_only)
