"""``pod send``, ``pause``, ``resume``, ``interrupt``, ``answer``, ``stop``."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Literal

import trio

from pod.cli.asking import asked
from pod.cli.failing import usage
from pod.cli.standard_input import read_input
from pod.cli.streams import give, say
from pod.entries import DeliveredEntry, HandedBack, RunEnd
from pod.exits import Exit
from pod.protocol.client import (
    Client,
    Disconnected,
    EventStream,
    RequestFailed,
    connect,
)
from pod.protocol.registry import NoSuchPod, find

How = Literal["prompt", "steer", "follow_up"]
ENDING = 10.0
"""Seconds that a Pod has from its last word to its end; its listeners get five of
them. From within a container its number may be another process's."""
_FLAGS = {
    "already_running": "--steer or --follow-up",
    "not_running": "without --steer",
}
"""What to write instead, by the error of a request that came at the wrong time."""


def run_send(target: str, text: str, *, how: How, wait: bool) -> int:
    """Send *text*; with *wait* give the answer, and its run's exit code."""
    if text == "-":
        text = read_input(sys.stdin)
    if not text.strip():
        return usage("the text is empty")
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return asked(partial(_send, target, text, how, wait))


def run_pause(target: str | None) -> int:
    """Stop a Pod's run so that it can be resumed; return when it stands."""
    return asked(partial(_pause, target))


def run_resume(target: str | None, *, wait: bool) -> int:
    """Go on with what was paused or cut off; *wait* as with run_send.

    Where no Pod is meant, a session may be: that is said.
    """
    return asked(partial(_resume, target, wait))


def run_interrupt(target: str | None) -> int:
    """End what a Pod does, for good; return when it is over."""
    return asked(partial(_interrupt, target))


def run_answer(target: str, call: str, *, allow: bool, message: str) -> int:
    """Answer a question of the permissions."""
    return asked(partial(_answer, target, call, allow, message))


def run_stop(target: str | None, *, now: bool) -> int:
    """End a Pod, and wait until it has."""
    return asked(partial(_stop, target, now))


async def _send(target: str, text: str, how: How, wait: bool) -> int:
    async with connect(find(target)) as client:
        events = client.events(
            from_seq=client.snapshot.state.seq + 1,
            types=("delivered", "handed_back", "result"),
        )
        if wait:
            await events.begin()
        run, input = await _said(client, text, how)
        if not wait:
            return Exit.DONE
        return _told(await _end(events, run, input))


def _told(end: RunEnd) -> int:
    """Print what a run ended with; return its exit code."""
    if end.text:
        give(end.text.rstrip("\n") + "\n")
    if end.exit_code != Exit.DONE:
        say(f"pod: {end.message or end.reason} ({end.outcome})")
    return end.exit_code


async def _said(client: Client, text: str, how: How) -> tuple[str | None, str | None]:
    """Send *text*; return the run it began, or else the id of the input that waits."""
    try:
        match how:
            case "prompt":
                return await client.prompt(text), None
            case "steer":
                return None, await client.steer(text)
            case "follow_up":
                return None, await client.follow_up(text)
    except RequestFailed as error:
        if flags := _FLAGS.get(error.code):
            raise RequestFailed(error.code, f"{error} ({flags})") from None
        raise


async def _end(
    events: EventStream, run: str | None, input: str | None = None
) -> RunEnd:
    """Wait for the end of *run*, or of the run that *input* goes into."""
    async for event in events:
        match event:
            case DeliveredEntry() if run is None and input in event.inputs:
                run = event.run
            case HandedBack() if run is None and input in event.inputs:
                raise RequestFailed(
                    "interrupted", "it was handed back: somebody interrupted the Pod"
                )
            case RunEnd() if run is not None and event.run == run:
                return event
            case _:
                pass
    raise Disconnected("the Pod has ended before the run was over")


async def _pause(target: str | None) -> int:
    async with connect(find(target)) as client:
        if await client.pause() == "idle":
            say("pod: the run came to its end first")
    return Exit.DONE


async def _resume(target: str | None, wait: bool) -> int:
    try:
        path = find(target)
    except NoSuchPod as error:
        of = target or "ID"
        raise NoSuchPod(
            f"{error}; a session that no Pod has goes on with pod run --resume {of}"
        ) from None
    async with connect(path) as client:
        events = client.events(
            from_seq=client.snapshot.state.seq + 1, types=("result",)
        )
        if wait:
            await events.begin()
        run = await client.resume()
        return _told(await _end(events, run)) if wait else Exit.DONE


async def _interrupt(target: str | None) -> int:
    async with connect(find(target)) as client:
        await client.interrupt()
    return Exit.DONE


async def _answer(target: str, call: str, allow: bool, message: str) -> int:
    async with connect(find(target)) as client:
        await client.answer_permission(call, allow=allow, message=message)
    return Exit.DONE


async def _stop(target: str | None, now: bool) -> int:
    async with connect(find(target)) as client:
        with _process(client.snapshot.pid) as process:
            events = client.events(types=())
            await events.begin()
            await client.shutdown(now=now)
            if not now and client.snapshot.state.state != "idle":
                say("pod: it ends when its run is over; --now ends that, too")
            async for _ in events:
                pass
            # Its session is free when the process has ended, not before.
            if process is not None:
                with trio.move_on_after(ENDING):
                    await trio.lowlevel.wait_readable(process)
    return Exit.DONE


@contextmanager
def _process(pid: int) -> Iterator[int | None]:
    """Give a descriptor that can be read once the process has ended.

    None where the system has none, or no such process.
    """
    process: int | None = None
    if sys.platform == "linux":
        with suppress(OSError):
            process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        if process is not None:
            os.close(process)
