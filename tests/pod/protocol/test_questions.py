"""Calls that somebody has to allow, and who is asked."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from pod.entries import Permission, RunEnd
from pod.events import PermissionRequest
from pod.permissions.permit import Approval
from pod.protocol.messages import AnswerPermission
from pod.protocol.questions import ALONE, NobodyThere, Questions
from tests.pod.protocol.served_pods import serving
from tests.pod.protocol.test_hub import hub
from worker.policy import Echo

QUESTION = PermissionRequest("c", "bash", "{}", "rule")
RULES = '[[permissions.rules]]\ntool = "bash"\naction = "ask"\n'
ONCE = Echo("bash", times=1, arguments='{"command": "true"}')


class Somebody:
    def __init__(self, *, has_clients: bool) -> None:
        self.has_clients = has_clients
        self.changed = trio.Event()

    def leave(self) -> None:
        self.has_clients = False
        self.changed.set()
        self.changed = trio.Event()


async def test_the_first_answer_counts(autojump_clock: MockClock) -> None:
    questions = Questions(hub())
    questions.clients = Somebody(has_clients=True)
    got: list[Approval] = []
    taken: list[bool] = []

    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            got.append(await questions.ask(QUESTION))

        nursery.start_soon(ask)
        await trio.sleep(10 * ALONE)
        taken += [
            questions.answer(AnswerPermission("other", allow=True)),
            questions.answer(AnswerPermission("c", allow=False, message="no")),
            questions.answer(AnswerPermission("c", allow=True)),
        ]

    assert got == [Approval(allow=False, message="no")]
    assert taken == [False, True, False]
    assert not questions.answer(AnswerPermission("c", allow=True))


async def test_with_nobody_there_it_is_given_up_after_a_while(
    autojump_clock: MockClock,
) -> None:
    questions = Questions(hub())
    questions.clients = somebody = Somebody(has_clients=True)
    started = trio.current_time()

    async def leave() -> None:
        await trio.sleep(100)
        somebody.leave()

    async def ask() -> None:
        with pytest.raises(NobodyThere):
            await questions.ask(QUESTION)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        nursery.start_soon(ask)

    assert trio.current_time() - started == 100 + ALONE


@pytest.mark.parametrize("allow", [True, False])
async def test_a_client_decides_about_a_call(
    short: Path, monkeypatch: pytest.MonkeyPatch, allow: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    decided: list[Permission] = []
    ends: list[RunEnd] = []

    async with serving(short, ONCE, more=RULES) as client:
        events = client.events()
        await events.begin()
        await client.prompt("go")
        async for event in events:
            match event:
                case PermissionRequest():
                    state = await client.state()
                    assert state.in_flight.questions == (event,)
                    await client.answer_permission(
                        event.call_id, allow=allow, message="since I say so"
                    )
                case Permission():
                    decided.append(event)
                case RunEnd():
                    ends.append(event)
                    break
                case _:
                    pass

    (permission,), (end,) = decided, ends
    assert (permission.decision, permission.by) == (
        "allow" if allow else "deny",
        "client",
    )
    assert [denial.by for denial in end.permission_denials] == (
        [] if allow else ["client"]
    )
