"""``pod ps``: which Pods run, and what they do."""

import msgspec
import trio
from msgspec import Struct

from pod.cli.asking import asked
from pod.cli.streams import give
from pod.exits import Exit
from pod.protocol.client import ClientError, connect
from pod.protocol.registry import Registered, running
from tools.text import clean

PATIENCE = 2.0
"""Seconds that a Pod has to say how it stands."""


class Listed(Struct, frozen=True):
    """A Pod that runs.

    *state* is "unreachable" where it does not say, "stdio" where only the program
    that started it can ask.
    """

    name: str
    session: str
    pid: int
    state: str
    since: str
    socket: str | None
    cwd: str


def run_ps(*, as_json: bool) -> int:
    """List the Pods that run."""

    async def list_all() -> int:
        found = await _listed(running())
        if as_json:
            give("".join(f"{msgspec.json.encode(each).decode()}\n" for each in found))
        else:
            give(_table(found))
        return Exit.DONE

    return asked(list_all)


async def _listed(pods: list[Registered]) -> list[Listed]:
    """Ask all of them at once how they stand."""
    states: dict[str, str] = {}

    async def ask(pod: Registered) -> None:
        states[pod.session] = await _state(pod)

    async with trio.open_nursery() as nursery:
        for pod in pods:
            nursery.start_soon(ask, pod)
    return [
        Listed(
            name=pod.name,
            session=pod.session,
            pid=pod.pid,
            state=states[pod.session],
            since=pod.since,
            socket=pod.socket,
            cwd=pod.cwd,
        )
        for pod in pods
    ]


async def _state(pod: Registered) -> str:
    if pod.socket is None:
        return "stdio"
    with trio.move_on_after(PATIENCE):
        try:
            async with connect(pod.socket) as client:
                return client.snapshot.state.state
        except ClientError:
            pass
    return "unreachable"


def _table(pods: list[Listed]) -> str:
    if not pods:
        return "no Pod runs\n"
    rows = [("NAME", "SESSION", "PID", "STATE", "SINCE", "SOCKET")]
    rows += [
        (
            clean(pod.name).text,
            pod.session,
            str(pod.pid),
            pod.state,
            pod.since,
            pod.socket or "-",
        )
        for pod in pods
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    return "".join(
        "  ".join(
            [*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]
        )
        + "\n"
        for row in rows
    )
