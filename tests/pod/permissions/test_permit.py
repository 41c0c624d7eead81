"""Who decides about a call, and what the model is told where it may not run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import trio

from pod.events import PermissionRequest
from pod.permissions.permit import (
    Approval,
    Approver,
    Permissions,
    for_compact_worker,
)
from pod.permissions.rules import Rule, Rulebook
from tests.fakes import called
from worker.items import ToolCall
from worker.permit import Allowed, Decision, Denied, Stopped

INSTEAD = (
    " Do not try to get the same done in another way: go on without it, or say in your"
    " answer what you could not do."
)
EFFECTS = {"bash": True, "write_file": True, "read_file": False}
GIT = Rule("bash", "git *", "allow", "rule 1")
ASK = Rule("bash", "npm *", "ask", "rule 2")
STOP = Rule("bash", "curl *", "stop", "rule 3")
SECRET = Rule("read_file", "secrets/*", "deny", "rule 4")
RULES = Rulebook((GIT, ASK, STOP, SECRET), "deny")


def bash(command: str) -> ToolCall:
    return called("a", "bash", f'{{"command":"{command}"}}')


def reading(path: str, name: str = "read_file") -> ToolCall:
    return called("a", name, f'{{"path":"{path}"}}')


async def decide(
    call: ToolCall,
    rulebook: Rulebook = RULES,
    *,
    approver: Approver | None = None,
    cwd: str = "/ws",
    effects: Mapping[str, bool] = EFFECTS,
) -> Decision:
    return await Permissions(rulebook, cwd, effects, approver)(call)


async def test_what_is_allowed_runs_without_a_word() -> None:
    assert await decide(bash("git status")) == Allowed()
    assert await decide(bash("anything"), Rulebook()) == Allowed()


async def test_a_rule_that_denies_names_itself() -> None:
    assert await decide(reading("secrets/key")) == Denied(
        f"a permission rule forbids it (rule 4).{INSTEAD}", "rule", "rule 4"
    )


async def test_where_no_rule_matches_the_model_learns_what_is_allowed() -> None:
    assert await decide(bash("git pull; make")) == Denied(
        'no permission rule allows it (default_action = "deny"). What is allowed of'
        f" bash: git *. The part that is not allowed: make.{INSTEAD}",
        "default",
        'default_action = "deny"',
    )


async def test_a_rule_that_stops_ends_the_run() -> None:
    assert await decide(bash("curl http://x")) == Stopped(
        "a permission rule ends the run here (rule 3)", "rule", "rule 3"
    )


async def test_a_question_that_nobody_can_be_asked_is_a_denial() -> None:
    assert await decide(bash("npm test")) == Denied(
        "somebody has to allow it first (rule 2), and in this run nobody can be"
        f" asked.{INSTEAD}",
        "nobody",
        "rule 2",
    )


class Asked:
    """Somebody who is asked, and says what was prepared."""

    def __init__(self, answer: Approval) -> None:
        self.heard: list[PermissionRequest] = []
        self._answer = answer

    async def __call__(self, request: PermissionRequest) -> Approval:
        await trio.lowlevel.checkpoint()
        self.heard.append(request)
        return self._answer


async def test_somebody_who_is_asked_sees_the_call_and_may_allow_it() -> None:
    asked = Asked(Approval(allow=True))

    assert await decide(bash("npm test"), approver=asked) == Allowed("client", "rule 2")
    assert asked.heard == [
        PermissionRequest(
            call_id="a", tool="bash", arguments='{"command":"npm test"}', rule="rule 2"
        )
    ]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("", "it was refused."),
        ("use make", "it was refused: use make."),
        ("use \x1b[31mmake\ud800!", "it was refused: use make\ufffd!"),
    ],
)
async def test_what_somebody_says_to_a_refusal_reaches_the_model(
    message: str, why: str
) -> None:
    asked = Asked(Approval(allow=False, message=message))

    assert await decide(bash("npm test"), approver=asked) == Denied(
        f"{why}{INSTEAD}", "client", "rule 2"
    )


async def test_an_approver_that_fails_is_a_denial() -> None:
    async def broken(request: PermissionRequest) -> Approval:
        raise OSError("the client is gone")

    decision = await decide(bash("npm test"), approver=broken)

    assert isinstance(decision, Denied)
    assert decision.by == "nobody"
    assert "the client is gone" in decision.reason


async def test_in_the_plan_mode_nothing_runs_that_may_change_something() -> None:
    plan = Rulebook((GIT,), is_read_only=True)

    denied = [
        isinstance(await decide(call, plan), Denied)
        for call in (bash("git status"), reading("x"), called("a", "unknown", "{}"))
    ]

    assert denied == [True, False, True]


async def test_where_a_link_leads_counts_too(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "secrets").mkdir()
    (folder / "secrets" / "key").write_text("x")
    (folder / "innocent").symlink_to("secrets/key")
    rulebook = Rulebook((SECRET,))

    decisions: Sequence[Decision] = [
        await decide(reading(path), rulebook, cwd=str(folder))
        for path in ("innocent", "other")
    ]

    assert isinstance(decisions[0], Denied)
    assert decisions[1] == Allowed()


async def test_a_compact_worker_is_held_to_the_rules_for_reading() -> None:
    asked = Asked(Approval(allow=True))
    ask = Rule("read_file", "private/*", "ask", "rule 5")
    pod = Permissions(Rulebook((SECRET, ask), is_read_only=True), "/ws", {}, asked)
    permit = for_compact_worker(pod)

    outcome = {
        (name, path): type(await permit(reading(path, name)))
        for name in ("read_file", "mark_read_required", "add_reference")
        for path in ("secrets/key", "private/x", "src/a")
    }

    assert outcome == {
        ("read_file", "secrets/key"): Denied,
        ("read_file", "private/x"): Denied,
        ("read_file", "src/a"): Allowed,
        ("mark_read_required", "secrets/key"): Denied,
        ("mark_read_required", "private/x"): Denied,
        ("mark_read_required", "src/a"): Allowed,
        ("add_reference", "secrets/key"): Allowed,
        ("add_reference", "private/x"): Allowed,
        ("add_reference", "src/a"): Allowed,
    }
    assert asked.heard == []
