"""``pod attach``: listens to a Pod, for a person or for a program."""

import sys
from functools import partial
from typing import TextIO, cast

import msgspec
from rich.console import Console
from rich.text import Text

from pod.cli.asking import asked
from pod.cli.failing import usage
from pod.cli.progress import Progress
from pod.cli.streams import Forgiving, say
from pod.entries import InputEntry, RunEnd
from pod.events import Closing, PermissionRequest, Status
from pod.exits import Exit
from pod.pipe import write_all
from pod.protocol.client import Client, EventStream, ReadTooSlowly, connect
from pod.protocol.reading import EVENTS, AnyEvent, UnknownEvent
from pod.protocol.registry import find
from tools.text import short_line

WIDTH = 200
"""Characters of a question that are shown."""


def run_attach(
    target: str | None,
    *,
    from_seq: int | None,
    types: tuple[str, ...],
    as_json: bool,
) -> int:
    """Print a Pod's events until it ends."""
    if unknown := [name for name in types if name not in EVENTS]:
        return usage(
            f"--types {unknown[0]}: there is no such event; there are"
            f" {', '.join(sorted(EVENTS))}"
        )
    return asked(partial(_attach, target, from_seq, types or None, as_json))


async def _attach(
    target: str | None,
    from_seq: int | None,
    types: tuple[str, ...] | None,
    as_json: bool,
) -> int:
    shown = _Lines() if as_json else _Shown()
    async with connect(find(target)) as client:
        is_begun = False
        while True:
            events = client.events(from_seq=from_seq, types=types)
            await events.begin()
            try:
                if not is_begun:  # who reads the first line knows that it listens
                    shown.begin(client)
                    is_begun = True
                async for event in events:
                    shown.show(event, events)
                return Exit.DONE
            except ReadTooSlowly as dropped:
                say("pod: too slow for it, and dropped; going on without a gap")
                from_seq = dropped.next_seq
            except BrokenPipeError:
                return Exit.DONE


class _Lines:
    """The events as they come."""

    def begin(self, client: Client) -> None:
        write_all(sys.stdout.fileno(), msgspec.json.encode(client.snapshot) + b"\n")

    def show(self, event: AnyEvent, events: EventStream) -> None:
        write_all(sys.stdout.fileno(), events.line + b"\n")


class _Shown:
    """The events as a person reads them."""

    def __init__(self) -> None:
        self._console = Console(
            file=cast(TextIO, Forgiving(sys.stdout)), highlight=False, emoji=False
        )
        self._progress = Progress(self._console, quiet=False)
        self._session = ""

    def begin(self, client: Client) -> None:
        about, state = client.snapshot.about, client.snapshot.state
        self._session = state.session
        self._say(
            f"{about.pod}, session {state.session}: {state.state}, {state.model},"
            f" {state.seq} events so far"
        )
        for question in state.in_flight.questions:
            self._ask(question)

    def show(self, event: AnyEvent, events: EventStream) -> None:
        match event:
            case RunEnd():
                self._progress.end(event, self._session)
            case InputEntry():
                self._say(f"» {short_line(event.text, WIDTH)}")
            case Status() if event.state == "paused":
                self._say("paused: resume it, or give a prompt")
            case PermissionRequest():
                self._ask(event)
            case Closing():
                self._say("the Pod has ended")
            case UnknownEvent():
                self._say(short_line(event.json, WIDTH))
            case _:
                self._progress(event)

    def _ask(self, question: PermissionRequest) -> None:
        call = short_line(f"{question.tool} {question.arguments}", WIDTH)
        self._say(
            f"? may it run {call}\n"
            f"  pod answer {self._session} {question.call_id} allow|deny"
        )

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)
