"""The survey's model where it is asked once for a summary of a conversation.

It writes the headings it is asked for, in their order, and below them what can
be counted in the conversation: all of it is true.
"""

import re

from pod.survey.markdown import code
from tools.text import counted
from worker.api import Request, Text
from worker.policy import Policy, Reply, say

MOST_NAMED = 20
"""Files that a summary names."""


class Once:
    """Answers requests without tools that bring a record, else asks *otherwise*."""

    def __init__(self, otherwise: Policy) -> None:
        self._otherwise = otherwise

    def reply(self, request: Request) -> Reply:
        """Decide from *request* alone."""
        last = request.messages[-1].content
        text = "".join(block.text for block in last if isinstance(block, Text))
        if request.tools or not _RECORD.search(text):
            return self._otherwise.reply(request)
        return say(_answer(text))


def _answer(prompt: str) -> str:
    order = prompt[max(found.end() for found in _RECORD.finditer(prompt)) :]
    headings = _HEADING.findall(order) or _SMALL_HEADING.findall(order)
    if headings:
        return _summary(prompt, headings)
    if "title" in order:
        return "A survey of files, under way"
    return _between(prompt, "summary")


def _summary(prompt: str, headings: list[str]) -> str:
    record = _between(prompt, "conversation")
    facts = _facts(record)
    before = "- There was a summary before; it is part of this one." * bool(
        _between(prompt, "previous-summary")
    )
    said = _SAID.findall(record)
    bodies = {
        "User Directives": [f"- “{said[0]}” — still holds"] if said else [],
        headings[0].lstrip("# "): ["### what came up in the record", *facts, before]
        if headings[0].startswith("## ")
        else facts,
    }
    nothing = ["- Nothing more stands in the record."]
    return "\n\n".join(
        "\n".join([heading, *filter(None, bodies.get(heading.lstrip("# "), nothing))])
        for heading in headings
    )


def _facts(record: str) -> list[str]:
    calls, failed = len(_CALL.findall(record)), len(_ERROR.findall(record))
    files = list(dict.fromkeys(_PATH.findall(record)))
    said = counted(len(_SAID.findall(record)), "message")
    called = f"{counted(calls, 'tool call')}, {failed} of them with an error"
    lines = [f"- {said} of the user's, {called}."]
    if files:
        names = ", ".join(map(code, files[-MOST_NAMED:]))
        lines.append(f"- {counted(len(files), 'file')} came up: {names}.")
    return lines


def _between(text: str, tag: str) -> str:
    inside = text.partition(f"<{tag}>\n")[2]
    return inside.rpartition(f"\n</{tag}>")[0]


_RECORD = re.compile(r"^</(?:conversation|summary|previous-summary)>$", re.MULTILINE)
_HEADING = re.compile(r"^## .+$", re.MULTILINE)
_SMALL_HEADING = re.compile(r"^### .+$", re.MULTILINE)
_SAID = re.compile(r"^\[User\]: (.+)$", re.MULTILINE)
_CALL = re.compile(r"^\[Assistant tool call\]: ", re.MULTILINE)
_ERROR = re.compile(r"^\[Tool error\]: ", re.MULTILINE)
_PATH = re.compile(r'path="([^"\n]{1,200})"')
