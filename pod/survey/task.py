"""What the survey was told to do: the prompt in prompts/demo.md, written and read."""

import re

import msgspec
from msgspec import Struct

from prompts import load
from worker.api import Request, Text


class Task(Struct, frozen=True):
    """Which folder to survey, and where the report goes (paths for the tools).

    At most *cap* files are read.
    """

    folder: str = "."
    report: str = "pod-report.md"
    cap: int = 150


def prompt_for(task: Task) -> str:
    """Return the prompt that asks for *task*. Paths are quoted as in JSON."""
    return load("demo").format(
        folder=_quoted(task.folder), report=_quoted(task.report), cap=task.cap
    )


def task_of(request: Request) -> Task:
    """Return what the request's user asked for; what it does not say is the usual.

    The prompt itself is looked for first, then (after a compaction) the copy
    of it among the system blocks. Never in what tools returned.
    """
    texts = [
        block.text
        for message in request.messages
        if message.role == "user"
        for block in message.content
        if isinstance(block, Text)
    ]
    texts += [block.text for block in request.system]
    found = next((m for m in map(_TASK.search, texts) if m), None)
    if found is None:
        return Task()
    return Task(_unquoted(found[1]), _unquoted(found[2]), int(found[3]))


_STRING = r'("(?:[^"\\\n]|\\.)*")'
_TASK = re.compile(
    rf"^Folder: {_STRING}\nReport: {_STRING}\nFiles to read at most: (\d{{1,6}})$",
    re.MULTILINE,
)


def _quoted(path: str) -> str:
    # A "<" could begin what is escaped where prompts are carried on.
    return msgspec.json.encode(path).decode().replace("<", r"\u003c")


def _unquoted(quoted: str) -> str:
    return msgspec.json.decode(quoted, type=str)
