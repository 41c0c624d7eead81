"""Folds an event stream of the Messages API into one response.

What cannot be a whole, right answer is a ProviderError that says why; the
blocks that were whole by then are in its failure. Nothing is guessed: a tool
call whose arguments did not come whole is never complete.
"""

from collections import Counter

from msgspec import DecodeError, Raw, Struct, json, structs

from worker.billing import Bill
from worker.blocks import (
    NULL,
    Block,
    GarbledError,
    UnknownDelta,
    is_server_tool,
    open_block,
    read,
    read_delta,
)
from worker.client import (
    BrokenOff,
    Delta,
    Failure,
    FailureKind,
    ProviderError,
    Response,
)
from worker.failures import classify
from worker.items import FromModel
from worker.sse import MAX_EVENT_BYTES, Sse, SseError, SseEvent

_LIMIT_STOPS = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons of an answer that may end in the middle of its last block."""

MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Most bytes of one answer's stream. 128 000 tokens, the longest answer there is, are
some 30 MB of events; a stream that goes on beyond this has no end."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
"""What may stand before a body: a byte order mark, white space."""

_EXCERPT_BYTES = 300
"""As much of a body that is no event stream as a message shows."""


class _Event(Struct, frozen=True):
    type: str = ""
    index: int | None = None
    message: Raw = NULL
    content_block: Raw = NULL
    delta: Raw = NULL
    usage: Raw = NULL
    error: Raw = NULL


class _StopDetails(Struct, frozen=True):
    explanation: str | None = None
    category: str | None = None


class _Ending(Struct, frozen=True):
    """What ``message_start`` and ``message_delta`` both may say."""

    stop_reason: str | None = None
    stop_details: Raw = NULL


class _Message(_Ending, frozen=True):
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    usage: Raw = NULL


class _Fallback(Struct, frozen=True):
    model: str


class _FallbackBlock(Struct, frozen=True, tag_field="type", tag="fallback"):
    to: _Fallback


_OURS = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
    }
)
"""Names of events whose data must be readable; "message" is a name left out."""

_EVENTS = json.Decoder(_Event)


class Fold:
    """Takes the bytes of one answer's stream and makes the response of them.

    *request_id* is put into the response or the failure. *limit* is the size
    of the largest event taken, *most* that of the whole answer, in bytes. After
    a ProviderError it is spent.
    """

    def __init__(
        self,
        *,
        request_id: str | None = None,
        limit: int = MAX_EVENT_BYTES,
        most: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._request_id = request_id
        self._left = most
        self._sse = Sse(limit)
        self._first = b""
        self._started: Raw = NULL
        self._message_id = ""
        self._model = ""
        self._given: list[FromModel] = []
        self._blocks: dict[int, Block] = {}
        self._closed: set[int] = set()
        self._bill = Bill()
        self._stop_reason = ""
        self._explanation: str | None = None
        self._ignored: Counter[str] = Counter()
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """Whether ``message_stop`` was seen; what comes after it is not read."""
        return self._is_done

    @property
    def ignored(self) -> dict[str, int]:
        """Events and deltas of unknown kinds, and how many of each were left out.

        A block with such deltas stays as it was without them.
        """
        return dict(self._ignored)

    def feed(self, data: bytes) -> list[Delta]:
        """Take the next bytes and return what listeners are told of them.

        Raises ProviderError.
        """
        if self._is_done or self._is_document(data):
            return []
        self._left -= len(data)
        if self._left < 0:
            raise self._garbled(GarbledError("the answer does not end"))
        deltas: list[Delta] = []
        try:
            for event in self._sse.feed(data):
                self._take(event, deltas)
        except (SseError, GarbledError) as error:
            raise self._garbled(error) from error
        return deltas

    def end(self) -> Response:
        """Return the response once the stream has ended.

        Raises ProviderError where the stream is not a whole answer.
        """
        if not self._is_done:
            self._take_rest()
        if not self._is_done or not self._stop_reason:
            what = "a stop reason" if self._is_done else "message_stop"
            told = ", ".join(self._ignored)[:_EXCERPT_BYTES]
            after = f" (what came and is not known: {told})" if told else ""
            raise self._error("truncated", f"the stream ended without {what}{after}")
        try:
            items = tuple(self._items())
            ran_tools = any(is_server_tool(item) for item in items)
        except GarbledError as error:
            raise self._garbled(error) from error
        return Response(
            message_id=self._message_id,
            model=self._model,
            items=items,
            stop_reason=self._stop_reason,
            usage=self._bill.usage,
            context_tokens=self._bill.context_tokens(has_server_tools=ran_tools),
            request_id=self._request_id,
            explanation=self._explanation,
        )

    def failure(
        self, kind: FailureKind, message: str, *, status: int | None = None
    ) -> Failure:
        """Return a failure that has what the stream had told so far.

        For the client, when the connection breaks or falls silent.
        """
        return Failure(
            kind=kind,
            message=message,
            status=status,
            request_id=self._request_id,
            partial=tuple(self._partial()),
            usage=self._bill.usage,
        )

    def broken_off(self) -> BrokenOff | None:
        """Return what is billed if nothing more is read; None where nothing was told."""
        usage = self._bill.usage
        return None if usage is None else BrokenOff(usage, self._request_id)

    def _error(self, kind: FailureKind, message: str) -> ProviderError:
        return ProviderError(self.failure(kind, message))

    def _garbled(self, error: SseError | GarbledError) -> ProviderError:
        return self._error("garbled", f"the stream is garbled: {error}")

    def _is_document(self, data: bytes) -> bool:
        """Look at the first bytes: JSON or HTML is not taken for events."""
        if len(self._first) < _EXCERPT_BYTES:
            self._first = (self._first + data).lstrip(_BLANK)[:_EXCERPT_BYTES]
        is_document = self._first.startswith((b"{", b"[", b"<", b'"'))
        if is_document and len(self._first) == _EXCERPT_BYTES:
            raise self._not_a_stream()
        return is_document

    def _not_a_stream(self) -> ProviderError:
        body = self._first.decode(errors="replace") or "nothing at all"
        return self._error("not_a_stream", f"the answer is no event stream but: {body}")

    def _take_rest(self) -> None:
        """Take a last event that lacks nothing but the blank line behind it."""
        if self._is_document(b""):
            raise self._not_a_stream()
        try:
            rest = self._sse.end()
            if rest is not None and _is_event(rest.data):
                self._take(rest, [])
        except (SseError, GarbledError) as error:
            raise self._garbled(error) from error
        if not self._sse.has_fields:
            raise self._not_a_stream()

    def _take(self, event: SseEvent, deltas: list[Delta]) -> None:
        if self._is_done:
            return
        try:
            told = _EVENTS.decode(event.data.decode())
        except (UnicodeDecodeError, DecodeError, RecursionError) as error:
            if event.event == "error":
                raise self._told_error(event.data) from error
            if event.event in _OURS:
                excerpt = event.data[:_EXCERPT_BYTES].decode(errors="replace")
                raise GarbledError(f"{error} in {excerpt}") from error
            self._ignore(f"event {event.event}")
            return
        name = "" if event.event == "message" else event.event
        kind = told.type or name
        if "error" in {name, kind} or (not kind and told.error != NULL):
            is_bare = told.error == NULL and told.type != "error"
            raise self._told_error(event.data, told.type if is_bare else None)
        self._fold(kind, told, deltas)

    def _fold(self, kind: str, told: _Event, deltas: list[Delta]) -> None:
        match kind:
            case "message_start":
                self._start(told, deltas)
            case "content_block_start":
                self._start_block(told, deltas)
            case "content_block_delta":
                self._add(told, deltas)
            case "content_block_stop":
                index, _ = self._open(told)
                self._closed.add(index)
            case "message_delta":
                self._require_start()
                self._bill.add(told.usage)
                if told.delta != NULL:
                    self._note(read(told.delta, _Ending))
            case "message_stop":
                self._require_start()
                self._is_done = True
            case "ping":
                pass
            case "":
                raise GarbledError("an event without a type")
            case _:
                self._ignore(f"event {kind}")

    def _told_error(self, data: bytes, error_type: str | None = None) -> ProviderError:
        found = classify(None, error_type, data.decode(errors="replace"), {})
        return ProviderError(
            structs.replace(
                found,
                request_id=self._request_id or found.request_id,
                partial=tuple(self._partial()),
                usage=self._bill.usage,
            )
        )

    def _start(self, told: _Event, deltas: list[Delta]) -> None:
        if told.message == NULL:
            raise GarbledError("message_start without a message")
        if self._started != NULL:
            if told.message == self._started:
                return
            raise GarbledError("message_start of another message before message_stop")
        message = read(told.message, _Message)
        self._started = told.message
        self._message_id = message.id or ""
        self._model = message.model or ""
        self._bill.add(message.usage)
        self._note(message)
        for raw in message.content or ():
            block, delta = open_block(raw, response=self._message_id, model=self._model)
            if delta is not None:
                deltas.append(delta)
            item = block.finish(cut=False)
            if item is not None:
                self._given.append(item)

    def _start_block(self, told: _Event, deltas: list[Delta]) -> None:
        self._require_start()
        if told.index is None or told.content_block == NULL:
            raise GarbledError("content_block_start without index or content_block")
        if told.index in self._blocks:
            raise GarbledError(f"content block {told.index} starts a second time")
        self._model = _fallback_model(told.content_block) or self._model
        block, delta = open_block(
            told.content_block, response=self._message_id, model=self._model
        )
        self._blocks[told.index] = block
        if delta is not None:
            deltas.append(delta)

    def _add(self, told: _Event, deltas: list[Delta]) -> None:
        _, block = self._open(told)
        if told.delta == NULL:
            raise GarbledError("content_block_delta without a delta")
        more = read_delta(told.delta)
        if isinstance(more, UnknownDelta):
            self._ignore(f"delta {more.type}")
        delta = block.add(more)
        if delta is not None:
            deltas.append(delta)

    def _open(self, told: _Event) -> tuple[int, Block]:
        if told.index is not None and told.index not in self._closed:
            block = self._blocks.get(told.index)
            if block is not None:
                return told.index, block
        raise GarbledError(f"{told.type} for content block {told.index}, not open")

    def _note(self, ending: _Ending) -> None:
        self._stop_reason = ending.stop_reason or self._stop_reason
        if ending.stop_details == NULL:
            return
        try:
            details = json.decode(ending.stop_details, type=_StopDetails)
        except (DecodeError, RecursionError):
            return
        told = details.explanation or details.category
        self._explanation = told or self._explanation

    def _require_start(self) -> None:
        if self._started == NULL:
            raise GarbledError("the stream does not begin with message_start")

    def _ignore(self, what: str) -> None:
        self._ignored[what] += 1

    def _items(self) -> list[FromModel]:
        """Return everything that came, in the order of the blocks' indexes."""
        items = list(self._given)
        last = max(self._blocks, default=0)
        for index, block in sorted(self._blocks.items()):
            ended_here = index == last and self._stop_reason in _LIMIT_STOPS
            item = block.finish(cut=ended_here or index not in self._closed)
            if item is not None:
                items.append(item)
        return items

    def _partial(self) -> list[FromModel]:
        """Return the blocks that were whole, as far as they can be read."""
        items = list(self._given)
        for index in sorted(self._closed):
            try:
                item = self._blocks[index].finish(cut=False)
            except GarbledError:
                continue
            if item is not None:
                items.append(item)
        return items


def _is_event(data: bytes) -> bool:
    try:
        _EVENTS.decode(data.decode())
    except (UnicodeDecodeError, DecodeError, RecursionError):
        return False
    return True


def _fallback_model(raw: Raw) -> str | None:
    """The model that goes on with the answer, where *raw* says that one does."""
    try:
        return json.decode(raw, type=_FallbackBlock).to.model
    except (DecodeError, RecursionError):
        return None
