"""Holds every event line that a test run makes to the published schema.

Cheap enough for every line: it is read as a client would read it, and what was
read must make the very same line. A field that the client does not know, a value
of another type, or an event without a struct does not survive that. The first
line of each shape is also held to the JSON Schema itself.
"""

from functools import cache

import msgspec

from pod.events import bare_line
from pod.protocol.reading import BadMessage, UnknownEvent, read_event
from pod.protocol.schema import protocol_schema
from tests.schema_check import Schema, errors, object_in


class _Envelope(msgspec.Struct):
    type: str
    session: str
    at: str | None = None
    run: str | None = None


@cache
def schema() -> Schema:
    return object_in(protocol_schema())


class Checker:
    """Looks at each line once; keeps what was wrong for the test that made it."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.checked = 0
        self._shapes: set[tuple[str, ...]] = set()

    def __call__(self, line: bytes) -> None:
        """Take in a line that was made."""
        self.checked += 1
        try:
            envelope = msgspec.json.decode(line, type=_Envelope)
            event = read_event(line)
        except (msgspec.DecodeError, BadMessage) as error:
            # Kept, not raised: whoever made the line might catch it.
            self.wrong.append(f"no event: {error}: {line!r}")
            return
        if isinstance(event, UnknownEvent):
            # A kind of entry from a newer version, as some tests write them.
            if f"event.{event.type}" in _schema_names():
                self.wrong.append(f"cannot be read by a client: {line!r}")
            return
        again = bare_line(
            event, session=envelope.session, at=envelope.at, run=envelope.run
        )
        if again != line:
            self.wrong.append(f"read as another event: {line!r}\n{again!r}")
        self._hold(line, envelope.type)

    def _hold(self, line: bytes, type: str) -> None:
        fields = object_in(line)
        shape = (type, *fields)
        if shape in self._shapes:
            return
        self._shapes.add(shape)
        root = schema()
        wrong = list(errors(fields, {"$ref": f"#/$defs/event.{type}"}, root))
        self.wrong += [f"{each} in {line!r}" for each in wrong]


@cache
def _schema_names() -> frozenset[str]:
    definitions = schema()["$defs"]
    assert isinstance(definitions, dict)
    return frozenset(definitions)
