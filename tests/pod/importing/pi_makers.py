"""Sessions of pi and oh-my-pi, made from the facts of their formats."""

from collections.abc import Mapping, Sequence

from tests.pod.importing.imports import Json

AT = "2026-01-02T03:04:05.678Z"


def header(version: int | None = 3, **more: object) -> Json:
    line: dict[str, object] = {"type": "session", "id": "s-1", "timestamp": AT}
    if version is not None:
        line["version"] = version
    return line | {"cwd": "/home/me/project"} | more


def message(message: Json) -> Json:
    return {"type": "message", "timestamp": AT, "message": message}


def user(text: str) -> Json:
    content = [{"type": "text", "text": text}]
    return message({"role": "user", "content": content, "timestamp": 1})


def answer(*content: Json, stop: str = "stop", **more: object) -> Json:
    usage = {"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2}
    return message(
        {
            "role": "assistant",
            "content": list(content),
            "api": "anthropic-messages",
            "provider": "anthropic",
            "model": "claude-a",
            "usage": usage | {"totalTokens": 20, "cost": {"total": 0.25}},
            "stopReason": stop,
            "timestamp": 2,
        }
        | more
    )


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thinking(words: str, signature: str = "sig") -> Json:
    return {"type": "thinking", "thinking": words, "thinkingSignature": signature}


def call(id: str, name: str = "read", **arguments: object) -> Json:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def result(id: str, words: str = "done", *, is_error: bool = False) -> Json:
    return message(
        {
            "role": "toolResult",
            "toolCallId": id,
            "toolName": "read",
            "content": [text(words)],
            "isError": is_error,
            "timestamp": 3,
        }
    )


def compaction(summary: str, **more: object) -> Json:
    line = {"type": "compaction", "timestamp": AT, "summary": summary}
    return {**line, "tokensBefore": 1000, **more}


def chained(lines: Sequence[Json], *, start: int = 1) -> list[Json]:
    """Give each entry an id (a1, a2, …) and the one before it as its parent."""
    found: list[Json] = []
    parent: str | None = None
    for number, line in enumerate(lines, start):
        id = f"a{number}"
        found.append({"id": id, "parentId": parent, **line})
        parent = str(found[-1]["id"])
    return found


def placed(id: str, parent: str | None, line: Json) -> Json:
    return {**line, "id": id, "parentId": parent}


def as_v1(lines: Sequence[Json]) -> list[Json]:
    """Take the ids away again."""
    return [_without(line, "id", "parentId") for line in lines]


def _without(line: Mapping[str, object], *names: str) -> Json:
    return {name: value for name, value in line.items() if name not in names}
