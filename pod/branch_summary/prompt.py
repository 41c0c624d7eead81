"""What a model is asked that summarises a branch; pure."""

from prompts import load
from worker.compact.escape import escape


def branch_prompt(
    conversation: str, *, instructions: str = "", replace_instructions: bool = False
) -> str:
    """Return the one message that a branch summariser gets.

    *conversation* is escaped already. *instructions* come behind the usual order,
    or in its place where *replace_instructions*.
    """
    block = f"<conversation>\n{conversation}\n</conversation>"
    wanted = instructions.strip()
    if wanted and replace_instructions:
        return f"{block}\n\n{wanted}"
    order = f"{block}\n\n{load('branch_summary')}"
    if not wanted:
        return order
    what = "What the user wants of this summary in particular:"
    return f"{order}\n\n{what}\n<instructions>\n{escape(wanted)}\n</instructions>"
