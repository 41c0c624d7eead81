"""What a navigation is asked for, and what hooks put in the place of it; pure."""

from collections.abc import Sequence

from msgspec import Struct

from pod.compaction.file_operations import branch_details
from pod.entries import AnyEntry, BranchSummary
from pod.hooks.answers import BeforeTreeAnswer, HookSummary

HOOK_SUMMARY_CHARS = 64_000
"""Most characters of a hook's summary, some 16 000 tokens; a longer one is a failure."""


class Wish(Struct, frozen=True):
    """What a navigation is asked for, besides its target.

    *instructions* go to the summariser, behind its own or in their place. A
    *label* is put on the branch summary; without one, on the target.
    """

    summarize: bool = False
    instructions: str = ""
    replace_instructions: bool = False
    label: str = ""


def with_answer(wish: Wish, answer: BeforeTreeAnswer) -> Wish:
    """Return *wish* with what a hook puts in the place of it."""
    replaces = answer.replace_instructions
    return Wish(
        summarize=wish.summarize,
        instructions=wish.instructions
        if answer.instructions is None
        else answer.instructions,
        replace_instructions=wish.replace_instructions
        if replaces is None
        else replaces,
        label=wish.label if answer.label is None else answer.label,
    )


def problem_of(given: HookSummary) -> str:
    """Return why a hook's summary cannot be used, "" where it can."""
    text = given.text.strip()
    if not text:
        return "is empty"
    if len(text) > HOOK_SUMMARY_CHARS:
        return f"has {len(text):,} characters, at most {HOOK_SUMMARY_CHARS:,} fit"
    return ""


def summary_of_hook(given: HookSummary, left: Sequence[AnyEntry]) -> BranchSummary:
    """Return the entry a hook's summary makes; *left* is the branch it is of.

    The leaf that was left is filled in once it is certain.
    """
    details = branch_details(left) if given.details is None else given.details
    text = given.text.strip()
    return BranchSummary(from_id="", summary=text, details=details, from_hook=True)
