"""What a model that summarises in one call is told, and what its answer must be.

All of what it gets is one message: the record between tags, then the order. A
text between the tags can neither end them nor begin others.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from prompts import fill, load
from worker.compact.escape import escape
from worker.compact.summary import judge as judge_summary

Kind = Literal["history", "turn_prefix"]
"""Which part of a history is summarised; see summary_turn_prefix.md for the second."""

PREFIX_HEADINGS = ("### Request", "### Progress so far", "### Needed for what follows")
"""What a summary of the first part of a turn consists of."""

NO_HISTORY = "No prior history."
"""Stands for the history where a turn that is split is all there is."""

SHORT_CHARS = 120
"""Characters of a title; what is longer is cut."""


class Brief(Struct, frozen=True):
    """What a summary should look at, besides the record; it reaches every call.

    *instructions* are those of whoever asked for it. Hooks add *context*, a line
    each, and may replace the order itself by *prompt*: then the headings are
    not asked for, and not required.
    """

    instructions: str = ""
    context: tuple[str, ...] = ()
    prompt: str = ""


class Sizes(Struct, frozen=True):
    """Tokens a summary should have (*target*) and may have (*cap*)."""

    target: int
    cap: int


def part_prompt(
    kind: Kind, conversation: str, previous: str, brief: Brief, sizes: Sizes
) -> str:
    """Return the message that asks for the summary of a *conversation*.

    *conversation* is escaped already (worker/compact/conversation.py). *previous*
    is the summary of what came before it, "" for nothing.
    """
    return "\n\n".join(
        (
            _block("conversation", conversation),
            *_previous(previous),
            *_surroundings(brief),
            brief.prompt.strip() or _order(kind, bool(previous), sizes),
        )
    )


def shorten_prompt(summary: str, tokens: int, brief: Brief, sizes: Sizes) -> str:
    """Return the message that sends a *summary* of too many *tokens* back."""
    order = fill(
        "summary_shorten",
        tokens=str(tokens),
        target=str(sizes.target),
        cap=str(sizes.cap),
    )
    block = _block("summary", escape(summary.strip()))
    return "\n\n".join((block, *_surroundings(brief), order))


def short_prompt(summary: str, brief: Brief) -> str:
    """Return the message that asks for the title of a *summary*."""
    block = _block("summary", escape(summary.strip()))
    return "\n\n".join((block, *_surroundings(brief), load("summary_short")))


def joined(history: str, prefix: str) -> str:
    """Return the summary of a split turn: of the history before it and of its start."""
    return fill("turn_context", history=history.strip(), prefix=prefix.strip())


def cleaned(answer: str) -> str:
    """Return a model's answer without a code fence around the whole of it."""
    text = answer.strip()
    if found := _FENCE.fullmatch(text):
        return found[1].strip()
    return text


def title(answer: str) -> str:
    """Return the first line of an answer that should be a title, bare and cut."""
    lines = [line for line in cleaned(answer).splitlines() if line.strip()]
    line = " ".join(lines[0].lstrip("#").split()).strip("\"'“”*") if lines else ""
    return line if len(line) <= SHORT_CHARS else f"{line[: SHORT_CHARS - 1]}…"


def problem_of(kind: Kind, text: str, brief: Brief) -> str | None:
    """Return what is wrong with a summary's shape, None if nothing.

    Its size is not looked at. Where a hook gave the order itself, only an empty
    text is wrong.
    """
    if not text.strip():
        return "it is empty"
    if brief.prompt.strip():
        return None
    match kind:
        case "history":
            return (
                "; ".join(judge_summary(text, cap=0, count=_nothing).problems) or None
            )
        case "turn_prefix":
            return _prefix_problem(text)


def _prefix_problem(text: str) -> str | None:
    lines = [line.rstrip().rstrip(":") for line in text.splitlines()]
    there = [line for line in lines if line in PREFIX_HEADINGS]
    if there != list(PREFIX_HEADINGS):
        return f"it has to have these headings, in order: {', '.join(PREFIX_HEADINGS)}"
    if not any(lines[lines.index(PREFIX_HEADINGS[-1]) + 1 :]):
        return f"nothing stands below {PREFIX_HEADINGS[-1]}; was it cut off?"
    return None


def _order(kind: Kind, has_previous: bool, sizes: Sizes) -> str:
    figures = {"target": str(sizes.target), "cap": str(sizes.cap)}
    match kind:
        case "history":
            name = "summary_update" if has_previous else "summary_first"
            return fill(name, sections=fill("summary_sections", **figures))
        case "turn_prefix":
            return fill("summary_turn_prefix", **figures)


def _previous(previous: str) -> Sequence[str]:
    if not previous.strip():
        return ()
    return (_block("previous-summary", escape(previous.strip())),)


def _surroundings(brief: Brief) -> list[str]:
    blocks = []
    if brief.context:
        lines = ("\n  ".join(text.strip().splitlines()) for text in brief.context)
        text = escape("\n".join(f"- {line}" for line in lines))
        blocks.append(_block("additional-context", text))
    if brief.instructions.strip():
        text = escape(brief.instructions.strip())
        told = "The user wants this of the summary in particular:\n"
        blocks.append(told + _block("instructions", text))
    return blocks


def _block(tag: str, text: str) -> str:
    return f"<{tag}>\n{text}\n</{tag}>"


def _nothing(text: str) -> int:
    return 0


_FENCE = re.compile(r"```[\w-]*\n(.*)\n```", re.DOTALL)
