"""The provider's own block of a native compaction, as a log keeps it."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from worker.items import FromModel, Native, Opaque


class _Kept(Struct, frozen=True):
    provider: str
    model: str
    block: Raw


class _Data(Struct, frozen=True):
    """What is kept; beside it there may be a "hook", what that wanted kept."""

    native: _Kept


class _WithHook(_Data, frozen=True):
    hook: Raw


class _Block(Struct, frozen=True):
    type: str
    content: str | None = None
    encrypted_content: str | None = None


def kept_text(native: Native, hook_data: str) -> str:
    """Return the *preserve_data* of an entry: the block, and what a hook wants kept."""
    block = Raw(native.json.encode())
    kept = _Kept(native.provider, native.model, block)
    data = _WithHook(kept, Raw(hook_data.encode())) if hook_data else _Data(kept)
    return msgspec.json.encode(data).decode()


def native_in(preserve_data: str) -> Native | None:
    """Return the block that *preserve_data* keeps, None if it keeps none."""
    try:
        kept = msgspec.json.decode(preserve_data, type=_Data).native
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return Native(kept.provider, kept.model, bytes(kept.block).decode())


def block_of(items: Sequence[FromModel]) -> str | None:
    """Return the compaction block that an answer consists of, None if it is none.

    One without content is the provider's way to say that it failed.
    """
    if len(items) != 1 or not isinstance(items[0], Opaque):
        return None
    json = items[0].json
    try:
        block = msgspec.json.decode(json, type=_Block)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    has_content = bool(block.content or block.encrypted_content)
    return json if block.type == "compaction" and has_content else None
