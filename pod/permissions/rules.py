"""What the rules say of a call: the first that matches decides."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pod.permissions.commands import Command, readings

Action = Literal["allow", "deny", "ask", "stop"]

ALIASES = {
    "read": "read_file",
    "write": "write_file",
    "edit": "edit_file",
    "multiedit": "edit_file",
}
"""Names that people know from Claude Code, for the tools that do the same here."""


class Rule(Struct, frozen=True):
    """Calls of *tool* whose subject matches *pattern*: what becomes of them.

    Both take ``*`` (any text, slashes and line ends included) and ``?`` (one
    character). *shown* is how messages name the rule.
    """

    tool: str
    pattern: str
    action: Action
    shown: str


class Paths(Struct, frozen=True):
    """A file or folder as a call names it.

    *named* is what its words say, without ``.`` and ``..``: absolute, and from the
    working folder where it lies below it. *real* is where its links led when the
    call was judged.
    """

    named: tuple[str, ...]
    real: tuple[str, ...] = ()


class Text(Struct, frozen=True):
    """What else a rule's pattern is matched with."""

    text: str


Subject = Command | Paths | Text


class Rulebook(Struct, frozen=True):
    """The rules in their order, and what holds where none matches.

    *asking* is what "ask" means in the end: somebody is asked, or it is taken as
    allowed or denied. With *is_read_only* no tool that has effects is allowed,
    whatever the rules say.
    """

    rules: tuple[Rule, ...] = ()
    default: Literal["allow", "deny", "ask"] = "allow"
    asking: Literal["ask", "allow", "deny"] = "ask"
    is_read_only: bool = False

    def allowed_patterns(self, tool: str) -> list[str]:
        """Return the patterns that allow calls of *tool*, as they are written."""
        return [
            rule.pattern
            for rule in self.rules
            if rule.action == "allow" and is_of(rule, tool)
        ]

    @property
    def is_open(self) -> bool:
        """Whether every call is allowed without a look at it."""
        return not self.rules and self.default == "allow" and not self.is_read_only

    def looks_at(self, tool: str) -> bool:
        """Whether a pattern is matched with the subject of *tool*'s calls."""
        return any(rule.pattern != "*" and is_of(rule, tool) for rule in self.rules)


class Judgement(Struct, frozen=True):
    """What the rules say: *rule* is the one that decided, None for the default.

    *part* is the command that was decisive, where there were several; else empty.
    """

    action: Action
    rule: Rule | None = None
    part: str = ""


def judge(rulebook: Rulebook, tool: str, subject: Subject) -> Judgement:
    """Return what becomes of a call of *tool*.

    A command line is judged command by command, each by the first rule that
    matches it; the strictest outcome counts.
    """
    judged = _judged(subject)
    judgements = [_first(rulebook, tool, subject, part) for part in judged]
    strictest = max(judgements, key=lambda each: _STRICTNESS.index(each.action))
    return strictest if len(judged) > 1 else replace(strictest, part="")


def _judged(subject: Subject) -> tuple[str, ...]:
    match subject:
        case Command(text, parts, is_unclear):
            return (text,) if is_unclear else parts
        case Paths() | Text():
            return ("",)


_STRICTNESS: Sequence[Action] = ("allow", "ask", "deny", "stop")


def _first(rulebook: Rulebook, tool: str, subject: Subject, part: str) -> Judgement:
    for rule in rulebook.rules:
        if is_of(rule, tool) and _matches(rule, subject, part):
            return Judgement(rule.action, rule, part)
    return Judgement(rulebook.default, None, part)


def is_of(rule: Rule, tool: str) -> bool:
    """Whether *rule* is about calls of *tool*."""
    wanted = rule.tool.lower()
    return wildcard(ALIASES.get(wanted, wanted), tool.lower()) or wildcard(
        wanted, tool.lower()
    )


def _matches(rule: Rule, subject: Subject, part: str) -> bool:
    pattern = rule.pattern
    if pattern == "*":
        return True
    match subject:
        case Command():
            if pattern == subject.text:  # word for word, whatever is in it
                return True
            if rule.action == "allow":
                return not subject.is_unclear and _begins(pattern, part)
            return any(_begins(pattern, text) for text in _readings(subject, part))
        case Paths(named, real):
            names = _of_paths(pattern)
            is_named = any(wildcard(names, name) for name in named)
            is_real = any(wildcard(names, name) for name in real)
            if rule.action == "allow":
                return is_named and (is_real or not real)
            return is_named or is_real
        case Text(text):
            return wildcard(pattern, text)


def _readings(command: Command, part: str) -> Iterator[str]:
    """Yield all that a rule that forbids may have meant."""
    yield command.text
    for each in command.parts if command.is_unclear else (part,):
        yield from readings(each)


def _begins(pattern: str, command: str) -> bool:
    """Match a command; ``git *`` is also the command ``git`` alone."""
    if pattern.endswith(" *") and wildcard(pattern[:-2], command):
        return True
    return wildcard(pattern, command)


def _of_paths(pattern: str) -> str:
    return pattern.removeprefix("./") or "."


def wildcard(pattern: str, text: str) -> bool:
    """Match the whole of *text*: ``*`` is any text, ``?`` any character."""
    return _compiled(pattern).match(text) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # Its groups are atomic: no pattern takes longer than its stars times the text.
    return re.compile(translate(pattern.replace("[", "[[]")))
