"""The least a loop must do: ``python -m tests.benchmarks.floor PORT``.

trio, httpx2, msgspec and Pod's own reading of the stream; the bytes of the
history are kept and added to. No log, no checks, no SDK, no output.
"""

import sys

import httpx2
import msgspec
import trio

from tests.benchmarks.provider import FILE
from worker.items import ToolCall
from worker.stream import Fold

HEAD = b'{"model":"m","max_tokens":1000,"stream":true,"messages":['


async def main(port: int) -> None:
    """Ask, read the file, ask again, until no call comes."""
    history = [b'{"role":"user","content":"Go on and look."}']
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        while True:
            body = HEAD + b",".join(history) + b"]}"
            fold = Fold()
            async with client.stream("POST", "/v1/messages", content=body) as answer:
                async for chunk in answer.aiter_raw():
                    fold.feed(chunk)
            call = fold.end().items[-1]
            if not isinstance(call, ToolCall):
                return
            text = await trio.Path(FILE).read_text(encoding="utf-8")
            history += [_call(call), _result(call, text)]


def _call(call: ToolCall) -> bytes:
    arguments = msgspec.Raw(call.arguments.encode())
    block = {"type": "tool_use", "id": call.call_id, "name": call.name}
    message = {"role": "assistant", "content": [{**block, "input": arguments}]}
    return msgspec.json.encode(message)


def _result(call: ToolCall, text: str) -> bytes:
    block = {"type": "tool_result", "tool_use_id": call.call_id, "content": text}
    return msgspec.json.encode({"role": "user", "content": [block]})


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]))
