"""The sandbox that a manifest asks for: whether there is one, and its making."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pod.errors import SetupError
from pod.load_manifest import Loaded, resolved
from pod.manifest import Manifest
from tools.bash import command_environment
from tools.launch import Order, Started
from tools.sandbox.box import Box, OpenBox
from tools.sandbox.kernel import hide_from_others
from tools.sandbox.policy import Policy
from tools.sandbox.probe import Report, probe, surroundings_here
from tools.scope import Scope
from worker.keys import SECRETS


def find_sandbox(loaded: Loaded, cwd: Path) -> Report | None:
    """Find what will hold commands; None where no tool runs any.

    Blocks for some milliseconds, the first time. Raises SetupError where none
    works that the manifest allows: nothing runs unconfined by itself.
    """
    manifest = loaded.manifest
    if "bash" not in manifest.tools.builtin:
        return None
    roots = manifest.permissions
    policy = policy_of(
        manifest,
        cwd=os.path.realpath(cwd),
        read=_resolved(roots.read_roots, cwd),
        write=_resolved(roots.write_roots, cwd),
    )
    report = probe(manifest.sandbox.mode, policy)
    if report.tier is None:
        raise SetupError(report.refusal)
    return report


def _resolved(roots: Sequence[str], cwd: Path) -> tuple[str, ...]:
    return tuple(os.path.realpath(resolved(root, cwd)) for root in roots)


def policy_of(
    manifest: Manifest, *, cwd: str, read: tuple[str, ...], write: tuple[str, ...]
) -> Policy:
    """Return what commands may do; the paths are absolute and free of links."""
    table = manifest.sandbox
    return Policy(
        cwd=cwd,
        read=read,
        write=write,
        network=table.network,
        unix_sockets=table.unix_sockets,
        memory=table.memory,
        processes=table.processes,
    )


def environment_of(manifest: Manifest, box: OpenBox | None) -> dict[str, str]:
    """Return what commands see of our environment. Never the key."""
    inherited = command_environment(
        manifest.sandbox.env, withheld=(*SECRETS, manifest.model.api_key_env)
    )
    return inherited if box is None else box.environment(inherited)


@contextmanager
def open_box(
    manifest: Manifest, scope: Scope, report: Report | None
) -> Iterator[OpenBox | None]:
    """Open the sandbox for commands that may do what *scope* allows.

    Raises SetupError where its folders cannot be made.
    """
    if report is None or report.tier is None:
        yield None
        return
    if report.tier == "off":
        with suppress(OSError):  # not Linux
            hide_from_others()
    policy = policy_of(
        manifest, cwd=scope.cwd, read=scope.read_roots, write=scope.write_roots
    )
    environment = environment_of(manifest, None)
    around = surroundings_here(policy, environment["PATH"], environment.get("HOME"))
    box = Box(report.tier, policy, around, report.bwrap)
    try:
        opened = box.open()
    except OSError as error:
        raise SetupError(f"the sandbox cannot be set up: {error}") from error
    with opened:
        yield opened


def told(box: OpenBox) -> str:
    """Return what a model is told of the sandbox its commands run in."""
    policy = box.policy
    if box.tier == "off":
        return ""
    write = ", ".join(policy.write) or "nowhere"
    network = (
        "There is the network of this machine."
        if policy.network == "host"
        else "There is no network" + (" but their own." if box.tier == "bwrap" else ".")
    )
    return (
        f"Commands run in a sandbox. They can write in {write} and in $TMPDIR and"
        f" $HOME, which are private and last as long as the session is open. {network}"
        " A refusal (Permission denied, Operation not permitted, Read-only file system)"
        " outside of that is final: look for another way or say what is missing."
    )


class Closed:
    """Starts nothing: for a bash that is only shown."""

    def start(self, order: Order) -> Started:
        raise OSError("no command runs here")

    def ended(self) -> tuple[str, ...]:
        return ()
