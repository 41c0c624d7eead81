"""The lines of pi's format 3, as structs."""

from msgspec import UNSET, Raw, Struct, UnsetType


class Header(Struct, tag="session", kw_only=True, omit_defaults=True):
    version: int
    id: str
    timestamp: str
    cwd: str
    parentSession: str | None = None


class Content(Struct, omit_defaults=True):
    type: str
    text: str | None = None
    thinking: str | None = None
    thinkingSignature: str | None = None
    redacted: bool = False
    id: str | None = None
    name: str | None = None
    arguments: Raw | None = None
    data: str | None = None
    mimeType: str | None = None


class Part(Struct, omit_defaults=True):
    """What pi has no place for in a part of an answer."""

    entry: str
    extra: str = ""
    incomplete: bool = False
    json: str = ""
    arguments: str = ""


class Cost(Struct):
    """US dollars; pi splits them, Pod knows the total."""

    total: float
    input: float = 0
    output: float = 0
    cacheRead: float = 0
    cacheWrite: float = 0


class Tokens(Struct):
    input: int
    output: int
    cacheRead: int
    cacheWrite: int
    totalTokens: int
    cost: Cost


class User(Struct, tag_field="role", tag="user", omit_defaults=True):
    content: list[Content]
    timestamp: int
    synthetic: bool = False


class Answer(Struct, tag_field="role", tag="assistant", kw_only=True):
    content: list[Content]
    api: str
    provider: str
    model: str
    usage: Tokens
    stopReason: str
    timestamp: int
    responseId: str
    pod: list[Part]


class OwnResult(Struct):
    """What pi has no place for in a result."""

    summary: str
    has_content: bool
    files: tuple[str, ...]


class ResultDetails(Struct):
    pod: OwnResult


class Result(Struct, tag_field="role", tag="toolResult", kw_only=True):
    toolCallId: str
    toolName: str
    content: list[Content]
    isError: bool
    timestamp: int
    details: ResultDetails


class Files(Struct):
    readFiles: tuple[str, ...]
    modifiedFiles: tuple[str, ...]
    pod: Raw | UnsetType = UNSET


class Line(Struct, kw_only=True, omit_defaults=True):
    """Any entry behind the header; which fields it has depends on *type*."""

    type: str
    id: str
    parentId: str | None
    timestamp: str
    message: User | Answer | Result | None = None
    provider: str = ""
    modelId: str = ""
    summary: str | None = None
    shortSummary: str = ""
    firstKeptEntryId: str = ""
    tokensBefore: int | None = None
    tokensAfter: int | None = None
    details: Files | None = None
    preserveData: Raw | None = None
    fromHook: bool | None = None
    fromId: str = ""
    customType: str = ""
    content: str | None = None
    display: bool | None = None
    data: Raw | None = None
    name: str | None = None
    targetId: str = ""
    label: str | None = None
