"""Where each key of a TOML document stands.

tomli gives positions for syntax errors only. This scanner goes over text that
tomli has accepted, so it only has to find its way, not to check anything.
"""

import re
from bisect import bisect_right

import tomli
from msgspec import Struct

KeyPath = tuple[str | int, ...]
"""Keys and array indexes from the top: ``("hooks", 0, "event")``."""


class Position(Struct, frozen=True, order=True):
    """A place in a text: line and column from 1, columns in characters."""

    line: int
    column: int


def positions(text: str) -> dict[KeyPath, Position]:
    """Return where every key, table and array element of *text* stands.

    A key or table has the position of its name, where it occurs first; an
    array element that of its value, or of the name in its ``[[header]]``.
    Undefined for text that tomli refuses.
    """
    scanner = _scan(text)
    starts = _line_starts(scanner.text)
    return {path: _position(starts, at) for path, at in scanner.found.items()}


class Repetition(Struct, frozen=True):
    """A key or table that is given a second time."""

    path: KeyPath
    first: Position
    again: Position


def repetition(text: str) -> Repetition | None:
    """Return what the last statement of *text* repeats.

    *text* is a document up to a statement that tomli refuses because of
    another one. None where the two are not found.
    """
    try:
        scanner = _scan(text)
    except ValueError:  # cut inside a value
        return None
    starts = _line_starts(scanner.text)
    path = scanner.statement
    while path:
        at = scanner.found.get(path, scanner.started)
        if at < scanner.started:
            return Repetition(
                path, _position(starts, at), _position(starts, scanner.started)
            )
        path = path[:-1]
    return None


def _scan(text: str) -> "_Scanner":
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _position(starts: list[int], at: int) -> Position:
    line = bisect_right(starts, at)
    return Position(line, at - starts[line - 1] + 1)


_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_INLINE_BLANK = re.compile(r"[ \t]*")
KEY_PART = r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'"""
"""A regular expression for one part of a key: bare, or in quotes."""
_KEY_PART = re.compile(KEY_PART, re.DOTALL)
_SCALAR = re.compile(
    # Up to two quotes may stand right before the three that close.
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'"
    r"|[^,\]}#\n]+",
    re.DOTALL,
)


class _Container:
    """An inline array or table that is being read."""

    def __init__(self, path: KeyPath, end: str) -> None:
        self.path = path
        self.end = end
        self.length = 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[KeyPath, int] = {}
        self.statement: KeyPath = ()
        self.started = 0
        self._lengths: dict[KeyPath, int] = {}  # of arrays made by [[headers]]

    def document(self) -> None:
        table: KeyPath = ()
        while self._skip(_BLANK):
            self.started = self.at
            if self._take("[["):
                table = self.statement = self._header(is_element=True)
                self._take("]]")
            elif self._take("["):
                table = self.statement = self._header(is_element=False)
                self._take("]")
            else:
                self.statement = self._key(table)
                self._value(self.statement)

    def _header(self, *, is_element: bool) -> KeyPath:
        path: KeyPath = ()
        parts = self._parts()
        for at, part in parts:
            path = (*path, part)
            self.found.setdefault(path, at)
            if path in self._lengths and not (is_element and at == parts[-1][0]):
                path = (*path, self._lengths[path] - 1)
        if is_element:
            index = self._lengths.get(path, 0)
            self._lengths[path] = index + 1
            path = (*path, index)
            self.found[path] = parts[-1][0]
        return path

    def _key(self, table: KeyPath) -> KeyPath:
        """Read a key and its equals sign."""
        path = table
        for at, part in self._parts():
            path = (*path, part)
            self.found.setdefault(path, at)
        self._take("=")
        self._skip(_INLINE_BLANK)
        return path

    def _parts(self) -> list[tuple[int, str]]:
        """Read a dotted key: its parts and where each begins."""
        parts = []
        while True:
            self._skip(_INLINE_BLANK)
            at = self.at
            parts.append((at, _unquoted(self._match(_KEY_PART))))
            self._skip(_INLINE_BLANK)
            if not self._take("."):
                return parts

    def _value(self, path: KeyPath) -> None:
        # A loop, not a recursion: tomli accepts 400 levels.
        open_: list[_Container] = []
        self._start_value(path, open_)
        while open_:
            self._skip(_BLANK)
            inner = open_[-1]
            if self._take(inner.end):
                open_.pop()
            elif not self._take(","):
                if inner.end == "]":
                    path = (*inner.path, inner.length)
                    inner.length += 1
                    self.found[path] = self.at
                else:
                    path = self._key(inner.path)
                self._start_value(path, open_)

    def _start_value(self, path: KeyPath, open_: list[_Container]) -> None:
        if self._take("["):
            open_.append(_Container(path, "]"))
        elif self._take("{"):
            open_.append(_Container(path, "}"))
        else:
            self._match(_SCALAR)

    def _skip(self, blank: re.Pattern[str]) -> bool:
        """Skip what *blank* matches; tell whether any text is left."""
        self._match(blank)
        return self.at < len(self.text)

    def _take(self, word: str) -> bool:
        is_there = self.text.startswith(word, self.at)
        if is_there:
            self.at += len(word)
        return is_there

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"no TOML that tomli accepts, at offset {self.at}")
        self.at = match.end()
        return match.group()


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    [key] = tomli.loads(f"{part} = 0")
    return key
