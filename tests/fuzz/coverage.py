"""Which lines of some modules ran, and in which order: by sys.settrace."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from msgspec import Struct

Edge = tuple[CodeType, int, int, int]
"""One line after another of the same function (0 before its first), and how often:
the number of binary digits."""


class Lines(Struct, frozen=True):
    """Lines of a module that ran, of those that could."""

    module: str
    ran: int
    of: int


class Coverage:
    """Watches the functions of *modules* while run() calls something."""

    def __init__(self, modules: Sequence[ModuleType]) -> None:
        self._names = {str(Path(m.__file__ or "")): m.__name__ for m in modules}
        self._seen: set[Edge] = set()
        self._ran: dict[str, set[int]] = {file: set() for file in self._names}

    @property
    def edges(self) -> int:
        return len(self._seen)

    def run(self, action: Callable[[], None]) -> int:
        """Call *action*; return how many edges had never run before."""
        counts: Counter[tuple[CodeType, int, int]] = Counter()

        def enter(frame: FrameType, event: str, arg: object) -> object:
            code = frame.f_code
            if code.co_filename not in self._names:
                return None
            last = 0
            ran = self._ran[code.co_filename]

            def step(frame: FrameType, event: str, arg: object) -> object:
                nonlocal last
                if event == "line":
                    line = frame.f_lineno
                    counts[code, last, line] += 1
                    ran.add(line)
                    last = line
                return step

            return step

        before = sys.gettrace()
        sys.settrace(enter)  # type: ignore[arg-type]  # typeshed asks for its own protocol
        try:
            action()
        finally:
            sys.settrace(before)
        edges = {(*edge, count.bit_length()) for edge, count in counts.items()}
        new = edges - self._seen
        self._seen |= new
        return len(new)

    def lines(self) -> list[Lines]:
        """Return what ran of each module's functions."""
        return [
            Lines(name, len(self._ran[file] & possible), len(possible))
            for file, name in self._names.items()
            for possible in [set(_lines_of_functions(Path(file)))]
        ]


def _lines_of_functions(file: Path) -> Iterator[int]:
    """Give the lines of a module that run when its functions are called."""
    waiting = list(_inner(compile(file.read_bytes(), str(file), "exec")))
    while waiting:
        code = waiting.pop()
        inner = list(_inner(code))
        waiting += inner
        if code.co_flags & 0x02:  # CO_NEWLOCALS: a function's, not a class body's
            lines = [line for _, _, line in code.co_lines() if line]
            yield from (line for line in lines if line != code.co_firstlineno)


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))
