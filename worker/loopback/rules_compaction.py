"""Rules about the provider's own compaction, as the SDK's types tell of them.

A request with the ``compaction`` parameter is answered by one signed block; a
later one sends that back first, unchanged. Both need the beta header.
"""

from collections.abc import Iterator

from worker.loopback import signing
from worker.loopback.body import Body, Compaction, Prompt, ToolUse

BETA = "compact-2026-09-04"


def blocks(prompt: Prompt, key: bytes) -> Iterator[str]:
    """The block is the first of all, the only one, and as it was returned."""
    found = [
        (i, number, block)
        for i, message in enumerate(prompt.messages)
        for number, block in enumerate(message.blocks)
        if isinstance(block, Compaction)
    ]
    if sum(block.content is not None for _, _, block in found) > 1:
        yield _error("block_ambiguous", "more than one compaction block with content")
    for i, number, block in found:
        if (i, number) != (0, 0) or prompt.messages[i].role == "system":
            yield _error(
                "block_misplaced",
                f"messages.{i}.content.{number} is not the first block",
            )
        if block.content is None:
            continue
        match signing.check(key, prompt.model, block.content, block.signature or ""):
            case "changed":
                yield _error("content_mismatch", "the content was changed")
            case "foreign":
                yield _error("signature_invalid", "the signature does not verify")
            case "valid":
                pass


def request(body: Body) -> Iterator[str]:
    """There is something to compact, and no turn is under way."""
    if body.compaction is None:
        return
    said = [m for m in body.messages if m.role != "system" and m.blocks]
    if not said:
        yield _error("nothing_to_summarize", "no user or assistant content")
    elif said[-1].role == "assistant" and any(
        isinstance(block, ToolUse) for block in said[-1].blocks
    ):
        yield _error("incomplete_turn", "the last assistant turn is not finished")


def needs_beta(body: Body) -> bool:
    """Whether the request uses what the beta header has to ask for."""
    return body.compaction is not None or any(
        isinstance(block, Compaction)
        for message in body.messages
        for block in message.blocks
    )


def _error(code: str, text: str) -> str:
    return f"compaction_{code}: {text}"
