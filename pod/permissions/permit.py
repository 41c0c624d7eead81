"""Asks the rules, and where they say so somebody, whether a call may run."""

import os
from collections.abc import Awaitable, Callable, Mapping

import trio
from msgspec import Struct
from msgspec.structs import replace

from pod.events import PermissionRequest
from pod.permissions.rules import Judgement, Rulebook, judge
from pod.permissions.subjects import subject_of
from tools.text import clean, short_line
from worker.crash import crash_text
from worker.items import ToolCall
from worker.permit import Allowed, Decision, Denied, Permit, Source, Stopped


class Approval(Struct, frozen=True):
    """What somebody who was asked said; *message* is for the model."""

    allow: bool
    message: str = ""


Approver = Callable[[PermissionRequest], Awaitable[Approval]]
"""Asks somebody, and waits as long as it takes. Several may be open at once.

What it raises, but for a cancellation, is a denial.
"""

MESSAGE_CHARACTERS = 2_000
"""Of what somebody says to a call; the model sees it in the result."""


class Permissions(Struct, frozen=True):
    """The rules of a Pod. *cwd* is absolute; *effects* says which tools have any."""

    rulebook: Rulebook
    cwd: str
    effects: Mapping[str, bool]
    approver: Approver | None = None

    async def __call__(self, call: ToolCall) -> Decision:
        """Decide about *call*."""
        if self.rulebook.is_open:
            return Allowed()
        if self.rulebook.is_read_only and self.effects.get(call.name, True):
            return Denied(
                'this run only looks (permissions.mode = "plan"), and'
                f" {call.name} may change something. Say in your answer what you"
                " would do instead of doing it.",
                "rule",
                'mode = "plan"',
            )
        judged = await self._judge(call)
        rule = judged.rule.shown if judged.rule else f"default_action = {self._default}"
        match judged.action, self.rulebook.asking:
            case ("allow", _) | ("ask", "allow"):
                return Allowed()
            case ("deny", _) | ("ask", "deny"):
                by: Source = "rule" if judged.rule else "default"
                return Denied(self._refusal(call, judged, rule), by, rule)
            case ("stop", _):
                return Stopped(
                    f"a permission rule ends the run here ({rule})", "rule", rule
                )
            case _:
                return await self._ask(call, rule)

    @property
    def _default(self) -> str:
        return f'"{self.rulebook.default}"'

    async def _judge(self, call: ToolCall) -> Judgement:
        if not self.rulebook.looks_at(call.name):
            subject = subject_of(call.arguments, cwd=self.cwd)
        else:
            # Where links lead is looked up on the disk. By the time the call runs
            # they may lead elsewhere: rules are about names, roots about files.
            subject = await trio.to_thread.run_sync(
                lambda: subject_of(
                    call.arguments, cwd=self.cwd, resolve=os.path.realpath
                ),
                abandon_on_cancel=True,
            )
        return judge(self.rulebook, call.name, subject)

    def _refusal(self, call: ToolCall, judged: Judgement, rule: str) -> str:
        part = (
            f" The part that is not allowed: {short_line(judged.part, 200)}."
            if judged.part
            else ""
        )
        if judged.rule is not None:
            why = f"a permission rule forbids it ({rule})."
        else:
            why = f"no permission rule allows it ({rule}).{self._allowed(call.name)}"
        return f"{why}{part}{_INSTEAD}"

    def _allowed(self, tool: str) -> str:
        patterns = self.rulebook.allowed_patterns(tool)[:10]
        if not patterns:
            return ""
        return f" What is allowed of {tool}: {', '.join(patterns)}."

    async def _ask(self, call: ToolCall, rule: str) -> Decision:
        if self.approver is None:
            return Denied(
                f"somebody has to allow it first ({rule}), and in this run nobody can"
                f" be asked.{_INSTEAD}",
                "nobody",
                rule,
            )
        question = PermissionRequest(
            call_id=call.call_id, tool=call.name, arguments=call.arguments, rule=rule
        )
        try:
            approval = await self.approver(question)
        # An approver is somebody else's code. However it fails, nobody has allowed
        # the call: it is denied, and the run goes on (see Approver).
        except Exception as error:  # noqa: BLE001
            return Denied(
                f"somebody had to allow it, and asking failed: {crash_text(error)}."
                f"{_INSTEAD}",
                "nobody",
                rule,
            )
        if approval.allow:
            return Allowed("client", rule)
        said = clean(approval.message[:MESSAGE_CHARACTERS]).text.strip()
        why = f"it was refused: {said}" if said else "it was refused"
        why += "" if why.endswith((".", "!", "?")) else "."
        return Denied(f"{why}{_INSTEAD}", "client", rule)


_INSTEAD = (
    " Do not try to get the same done in another way: go on without it, or say in your"
    " answer what you could not do."
)


def for_compact_worker(permissions: Permissions) -> Permit:
    """Return the permit for a compact worker's calls, under the Pod's rules.

    Marking lines puts them in front of the model: it is judged as reading them.
    Naming a file and writing the summary are the runtime's own doing. Nobody is
    asked: a compaction waits for no person.
    """
    reading = replace(permissions, approver=None, effects={"read_file": False})

    async def ask(call: ToolCall) -> Decision:
        if call.name in ("add_reference", "write_summary"):
            return Allowed()
        return await reading(replace(call, name="read_file"))

    return ask
