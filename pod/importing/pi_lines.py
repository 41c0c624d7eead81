"""The lines of pi and oh-my-pi, as far as they are read: every field may be missing."""

from msgspec import Raw, Struct


class Cost(Struct):
    total: float | None = None


class Usage(Struct):
    input: int = 0
    output: int = 0
    cacheRead: int = 0
    cacheWrite: int = 0
    totalTokens: int | None = None
    cost: Cost | None = None


class Content(Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    thinkingSignature: str | None = None
    redacted: bool | None = None
    id: str = ""
    name: str = ""
    arguments: Raw = Raw(b"{}")
    data: str = ""
    mimeType: str = ""


class OwnResult(Struct):
    """What Pod's export adds to a result."""

    summary: str = ""
    has_content: bool = True
    files: tuple[str, ...] | None = None


class Details(Struct):
    readFiles: list[str] = []
    modifiedFiles: list[str] = []
    pod: Raw = Raw(b"")


class OwnPart(Struct):
    """What Pod's export adds to a part of an answer.

    *json*: the part itself, a block for which pi has no place; *arguments*:
    those of a call, where JSON would not bring them back byte for byte.
    """

    entry: str = ""
    extra: str = ""
    incomplete: bool = False
    json: str = ""
    arguments: str = ""


class Message(Struct):
    role: str = ""
    content: str | list[Content] | None = None
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage | None = None
    stopReason: str | None = None
    errorMessage: str | None = None
    responseId: str | None = None
    toolCallId: str = ""
    toolName: str = ""
    isError: bool = False
    details: Raw = Raw(b"")
    command: str = ""
    output: str = ""
    exitCode: int | None = None
    cancelled: bool = False
    excludeFromContext: bool | None = None
    customType: str = ""
    summary: str = ""
    synthetic: bool = False
    pod: list[OwnPart] | None = None


class Line(Struct):
    type: str = ""
    id: str = ""
    parentId: str | None = None
    timestamp: str | int | float | None = None
    version: int | None = None
    cwd: str = ""
    title: str | None = None
    message: Message | None = None
    provider: str = ""
    modelId: str = ""
    model: str = ""
    summary: str | None = None
    shortSummary: str | None = None
    firstKeptEntryId: str | None = None
    firstKeptEntryIndex: int | None = None
    tokensBefore: int | None = None
    tokensAfter: int | None = None
    details: Raw = Raw(b"")
    preserveData: Raw = Raw(b"")
    fromHook: bool | None = None
    fromExtension: bool | None = None
    fromId: str | None = None
    customType: str = ""
    content: str | list[Content] | None = None
    data: Raw = Raw(b"null")
    name: str | None = None
    targetId: str = ""
    label: str | None = None
