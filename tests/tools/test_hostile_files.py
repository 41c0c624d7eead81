"""Every file tool and everything that can lie in a folder: an answer, soon, and small."""

import contextlib
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.tools.calls import run
from tools import file_tools
from tools.base import Tool, ToolError
from tools.scope import Scope

SECONDS = 15.0
"""Far beyond what any of them takes, on a machine under load, too."""
MOST_GROWTH = 300 * 1024
"""KiB by which the process may grow: what is read of one file is at most 256 MiB."""
MOST_ANSWER = 200_000
NAMES = ("read_file", "write_file", "edit_file", "grep", "glob")


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"needle\n")
        file.truncate(1 << 40)


def _line(path: Path) -> None:
    path.write_bytes(b"needle" + b"x" * 100_000_000)


def _two_links(path: Path) -> None:
    path.symlink_to("other")
    path.with_name("other").symlink_to(path.name)


def _deep(path: Path) -> None:
    for _ in range(200):
        path.mkdir()
        path = path / "d"


def _full_folder(path: Path) -> None:
    path.mkdir()
    for number in range(3_000):
        (path / f"{number}\n\x1b[2J").touch()


THINGS: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a socket": _socket,
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "two links in a circle": _two_links,
    "a link to nothing": lambda path: path.symlink_to("nothing/at/all"),
    "a link to its folder": lambda path: path.symlink_to("."),
    "a sparse file of a terabyte": _sparse,
    "a hundred megabytes on a line": _line,
    "a folder of 200 folders in each other": _deep,
    "a folder of 3,000 odd names": _full_folder,
    "NULs and bytes that are no text": lambda p: p.write_bytes(bytes(range(256)) * 9),
}


@pytest.fixture
def everywhere(folder: Path) -> Iterator[Scope]:
    """A scope in which devices may be read, and the folder written."""
    scope = Scope([folder, Path("/dev")], [folder], folder)
    yield scope
    scope.close()


def arguments(tool: str, path: str) -> dict[str, object]:
    match tool:
        case "write_file":
            return {"path": path, "content": "new"}
        case "edit_file":
            edit = {"old_text": "needle", "new_text": "thread"}
            return {"path": path, "edits": [edit]}
        case "grep":
            return {"pattern": "needle", "path": path}
        case "glob":
            return {"pattern": "**/*", "path": path}
        case _:
            return {"path": path}


async def answer(tool: Tool, **given: object) -> str:
    try:
        output = await run(tool, **given)
    except ToolError as error:
        return str(error)
    return output.summary + "\n" + (output.content or "")


@pytest.mark.parametrize("make", THINGS.values(), ids=list(THINGS))
async def test_whatever_lies_there_each_tool_answers_soon_and_in_few_words(
    make: Callable[[Path], object], everywhere: Scope, folder: Path
) -> None:
    name = "two\nlines \x1b[2J"
    make(folder / name)
    (folder / "beside").write_text("needle\n")
    before = _peak()

    said: dict[str, str] = {}
    for tool in file_tools(everywhere, NAMES):
        with trio.fail_after(SECONDS):
            said[tool.name] = await answer(tool, **arguments(tool.name, name))
            if tool.name in ("grep", "glob"):  # and where it lies in a folder
                whole = await answer(tool, **arguments(tool.name, "."))
                assert "beside" in whole
                said[tool.name] += whole
    with contextlib.suppress(OSError):
        (folder / name).unlink()  # the tests' search for the key would read it

    assert sorted(said) == sorted(NAMES)
    for text in said.values():
        assert len(text) < MOST_ANSWER
        assert "\x1b" not in text
        assert "Traceback" not in text
        text.encode()
    assert _peak() - before < MOST_GROWTH


def _peak() -> int:
    """Return the most memory the process ever had, in KiB."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // 1024 if sys.platform == "darwin" else size
