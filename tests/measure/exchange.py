"""Files and links that change places while the file tools open them.

An attacker process exchanges, as fast as it can, what lies in the workspace
with links that lead out of it (renameat2 with RENAME_EXCHANGE): a folder, a
file, and a folder far up on the way. Meanwhile every file tool, the lines read
again after a compaction and the compact worker's confined thread open them. An
escape is any byte from outside that is read, and any change to what is outside.

    python -m tests.measure.exchange [--opens 30000]

Runs as whoever calls it; for root a second time as an ordinary user.
"""

import argparse
import ctypes
import os
import signal
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import trio
from msgspec import Struct

from tests.fakes import MemorySpill
from tools.base import Call, Tool, ToolError, ToolOutput
from tools.confined import confined
from tools.edit_file import EditFile
from tools.read_file import ReadFile
from tools.scope import Scope
from tools.search import FileMatches, Glob, Grep, Listed, search
from tools.start import open_start
from tools.write_file import WriteFile
from worker.compact.auto_read import read_lines

INSIDE, SECRET = "inside", "SECRET"
NOBODY = 65534
FILES = 8
"""In each folder that is searched."""

PATHS = ("d/f0", "file", "up/a/b/f0", "a/../d/f1")


class Row(Struct, frozen=True):
    """What came of one tool's opens; *refused* are answered with an error."""

    tool: str
    way: str
    opens: int
    inside: int
    refused: int
    escapes: int
    seconds: float


class Figures(Struct, frozen=True):
    user: int
    rows: tuple[Row, ...]

    @property
    def wrong(self) -> list[str]:
        """What speaks against it: escapes, or a race that was never on."""
        return [
            f"uid {self.user}: {row.tool}: {row.escapes} escapes of {row.opens} opens"
            if row.escapes
            else f"uid {self.user}: {row.tool}: every open ended the same way"
            for row in self.rows
            if row.escapes or not (row.inside and row.refused)
        ]


def make_world(base: Path) -> None:
    """Make a workspace, what lies outside of it, and links that lead there."""
    for folder, text in (("ws/d", INSIDE), ("ws/up/a/b", INSIDE), ("out/d", SECRET)):
        (base / folder).mkdir(parents=True)
        for number in range(FILES):
            (base / folder / f"f{number}").write_text(f"{text}\n")
    (base / "out/a/b").mkdir(parents=True)
    (base / "out/a/b/f0").write_text(f"{SECRET}\n")
    (base / "out/secret").write_text(f"{SECRET}\n")
    (base / "ws/file").write_text(f"{INSIDE}\n")
    (base / "ws/a").mkdir()
    (base / "ws/d.link").symlink_to(base / "out/d")
    (base / "ws/file.link").symlink_to("../out/secret")
    (base / "ws/up.link").symlink_to(base / "out")


def is_untouched(base: Path) -> bool:
    """Whether all that is outside is as it was made."""
    texts = [p.read_text() for p in (base / "out").rglob("*") if p.is_file()]
    return texts == [f"{SECRET}\n"] * (FILES + 2)


def fork() -> int:
    """os.fork; its child uses nothing that another thread could hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


@contextmanager
def attacker(base: Path) -> Iterator[None]:
    """Exchange the workspace's files and links in a process of its own meanwhile."""
    libc = ctypes.CDLL(None)
    pairs = [
        (os.fsencode(base / "ws" / name), os.fsencode(base / "ws" / f"{name}.link"))
        for name in ("d", "file", "up")
    ]
    child = fork()
    if child == 0:
        while True:
            for one, other in pairs:
                libc.renameat2(-100, one, -100, other, 2)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


class Tally:
    """Counts how opens end."""

    def __init__(self, tool: str, *, way: str) -> None:
        self.tool = tool
        self._way = way
        self._counts = {"inside": 0, "refused": 0, "escapes": 0}
        self._started = time.monotonic()

    @property
    def opens(self) -> int:
        return sum(self._counts.values())

    def saw(self, text: str, times: int = 1) -> None:
        self._counts["escapes" if SECRET in text else "inside"] += times

    def refused(self, times: int = 1) -> None:
        self._counts["refused"] += times

    def row(self, *, untouched: bool) -> Row:
        return Row(
            tool=self.tool,
            way=self._way,
            opens=self.opens,
            inside=self._counts["inside"],
            refused=self._counts["refused"],
            escapes=self._counts["escapes"] + (not untouched),
            seconds=round(time.monotonic() - self._started, 2),
        )


async def by_tool(tool: Tool, arguments: dict[str, object], tally: Tally) -> None:
    call = Call("c", MemorySpill(), lambda text: None)
    try:
        output: ToolOutput = await tool.run(msgspec.json.encode(arguments), call)
    except ToolError:
        tally.refused()
    else:
        tally.saw(output.content or output.summary)


def searching(scope: Scope, tally: Tally, *, is_glob: bool) -> None:
    """Search as the child process does, but without the Landlock it is under."""
    try:
        with open_start(scope, "d") as start:
            request = (
                Glob(start.fd, start.above, "**", 100)
                if is_glob
                else Grep(
                    start=start.fd,
                    is_folder=start.is_folder,
                    name=start.shown,
                    above=start.above,
                    pattern="S|i",
                    ignore_case=False,
                    glob=None,
                    context=0,
                    max_matches=100,
                    rg=None,
                )
            )
            for frame in search(request):
                match frame:
                    case FileMatches(lines=lines):
                        tally.saw("".join(line.text for line in lines))
                    case Listed():
                        tally.saw(INSIDE)
                    case _:
                        pass
    except ToolError:
        tally.refused()


Attempt = Callable[[str, Tally], Awaitable[None]]


async def measure(base: Path, *, opens: int, openat2: bool) -> tuple[Row, ...]:
    """Have each tool make *opens* opens; return what came of them."""
    scope = Scope([], [base / "ws"], base / "ws", openat2=openat2)
    lock = trio.Lock()
    reader, writer, editor = (
        ReadFile(scope),
        WriteFile(scope, lock),
        EditFile(scope, lock),
    )

    async def read(path: str, tally: Tally) -> None:
        await by_tool(reader, {"path": path}, tally)

    async def write(path: str, tally: Tally) -> None:
        await by_tool(writer, {"path": path, "content": f"{INSIDE}\n"}, tally)

    async def edit(path: str, tally: Tally) -> None:
        there_and_back = [
            {"old_text": INSIDE, "new_text": "x"},
            {"old_text": "x", "new_text": f"{INSIDE} "},
        ]
        await by_tool(editor, {"path": path, "edits": there_and_back}, tally)

    async def grep(path: str, tally: Tally) -> None:
        searching(scope, tally, is_glob=False)

    async def glob(path: str, tally: Tally) -> None:
        searching(scope, tally, is_glob=True)

    def lines(of: Scope, path: str, tally: Tally) -> None:
        try:
            found = read_lines(of, path, None, None, max_bytes=99, check=lambda: None)
        except ToolError:
            tally.refused()
        else:
            tally.saw(found.text)

    rows: list[Row] = []

    async def run(tool: str, attempt: Attempt) -> None:
        tally = Tally(tool, way="openat2" if openat2 else "by hand")
        with attacker(base):
            while tally.opens < opens:
                for path in PATHS:
                    await attempt(path, tally)
        rows.append(tally.row(untouched=is_untouched(base)))

    try:
        for tool, attempt in (
            ("read_file", read),
            ("grep", grep),
            ("glob", glob),
            ("write_file", write),
            ("edit_file", edit),
        ):
            await run(tool, attempt)
        async with confined(scope) as reading:

            async def auto_read(path: str, tally: Tally) -> None:
                await trio.to_thread.run_sync(lines, reading.scope, path, tally)

            await run("auto-read", auto_read)
    finally:
        scope.close()
    return tuple(rows)


@contextmanager
def a_world() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        make_world(base)
        yield base


def figures(opens: int) -> Figures:
    """Measure as whoever runs this: by openat2, and by hand."""
    rows: list[Row] = []
    for is_openat2 in (True, False):
        with a_world() as base:
            rows += trio.run(partial(measure, base, opens=opens, openat2=is_openat2))
    return Figures(os.geteuid(), tuple(rows))


def control(opens: int) -> Row:
    """Look first where a path leads, then open it, as it is often done."""
    with a_world() as base, attacker(base):
        tally = Tally("control", way="look, open")
        while tally.opens < opens:
            for path in PATHS:
                try:
                    real = os.path.realpath(base / "ws" / path)
                    if real.startswith(f"{base}/ws/"):
                        tally.saw((base / "ws" / path).read_text())
                    else:
                        tally.refused()
                except OSError:
                    tally.refused()
        return tally.row(untouched=True)


def figures_as_user(opens: int) -> Figures:
    """Measure in a process that has become an ordinary user. For root alone."""
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, msgspec.json.encode(figures(opens)))
        except BaseException as error:  # noqa: BLE001  said by the parent
            os.write(writer, msgspec.json.encode(repr(error)))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return msgspec.json.decode(said, type=Figures)


def everybody(opens: int) -> list[Figures]:
    """Measure as whoever runs this, and for root as an ordinary user, too."""
    mine = figures(opens)
    return [mine, figures_as_user(opens)] if os.geteuid() == 0 else [mine]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opens", type=int, default=30_000)
    opens: int = parser.parse_args().opens
    head = ("uid", "way", "tool", "opens", "inside", "refused", "escapes", "s")
    lines: list[tuple[str, ...]] = [head]
    wrong: list[str] = []
    for measured in everybody(opens):
        lines += [_cells(measured.user, row) for row in measured.rows]
        wrong += measured.wrong
    lines.append(_cells(os.geteuid(), control(opens)))
    for line in lines:
        sys.stdout.write("".join(f"{cell:>12}" for cell in line) + "\n")
    sys.stdout.write("\n".join([*wrong, "no escapes" if not wrong else ""]) + "\n")
    return 1 if wrong else 0


def _cells(user: int, row: Row) -> tuple[str, ...]:
    figures = (row.opens, row.inside, row.refused, row.escapes, row.seconds)
    return (str(user), row.way, row.tool, *map(str, figures))


if __name__ == "__main__":
    sys.exit(main())
