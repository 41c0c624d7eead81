"""Requests as plain JSON, so that a test can break one thing of a valid one."""

import msgspec

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Fields = dict[str, Json]

MODEL = "claude-loopback"


def text(words: str, **fields: Json) -> Fields:
    return {"type": "text", "text": words, **fields}


def tool_use(id_: str, name: str = "look", **fields: Json) -> Fields:
    return {"type": "tool_use", "id": id_, "name": name, "input": {}, **fields}


def tool_result(id_: str, words: Json = "seen", **fields: Json) -> Fields:
    return {"type": "tool_result", "tool_use_id": id_, "content": words, **fields}


def message(role: str, *blocks: Json) -> Fields:
    return {"role": role, "content": list(blocks)}


def tool(name: str = "look", **fields: Json) -> Fields:
    schema: Fields = {"type": "object", "properties": {}}
    return {"name": name, "description": "Look.", "input_schema": schema, **fields}


def request(*messages: Json, **fields: Json) -> bytes:
    """Encode a valid request, with *messages* and *fields* in place of its own."""
    said: list[Json] = list(messages) or [message("user", text("hello"))]
    body: Fields = {
        "model": MODEL,
        "max_tokens": 1000,
        "messages": said,
        "tools": [tool()],
        **fields,
    }
    return msgspec.json.encode(
        {name: value for name, value in body.items() if value is not None}
    )


LOOP: tuple[Json, ...] = (
    message("user", text("go")),
    message("assistant", tool_use("a"), tool_use("b")),
    message("user", tool_result("a"), tool_result("b")),
)
