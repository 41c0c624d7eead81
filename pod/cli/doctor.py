"""``pod doctor``: whether a run would start here, and what is missing."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from pod.check import check, finding_line
from pod.check_facts import gather
from pod.cli.check import overhead_of, tools_of
from pod.cli.flags import Workplace
from pod.cli.folder import working_folder
from pod.cli.streams import give
from pod.doctor.finding import (
    Finding,
    error,
    exit_of,
    for_people,
    note,
    ok,
    warning,
)
from pod.doctor.machine import environment, installation, programs, system
from pod.doctor.place import sessions
from pod.doctor.provider import endpoint, key, model
from pod.doctor.sandbox import sandbox
from pod.exits import Exit
from pod.load_manifest import Loaded, load, resolved
from pod.manifest import Manifest
from pod.manifest_errors import ManifestError
from pod.open_model import model_of, unpriced
from pod.path_text import path_text
from pod.setup import system_prompt
from pod.store import Store
from pod.toml_text import printable
from tools.text import counted


class Examination(Struct, frozen=True):
    """What ``--json`` gives. *ok* and *exit_code* say whether a run would start."""

    ok: bool
    exit_code: int
    findings: tuple[Finding, ...]


def run_doctor(place: Workplace, *, as_json: bool, is_offline: bool) -> int:
    """Print what was found; return the exit code that a run would fail with, or 0."""
    cwd = working_folder(place.cd)
    findings = trio.run(examine, place.manifest, place.settings, cwd, is_offline)
    code = exit_of(findings)
    if as_json:
        examined = Examination(code == Exit.DONE, code, tuple(findings))
        give(msgspec.json.encode(examined).decode() + "\n")
    else:
        give(for_people(findings))
    return code


async def examine(
    manifest: Path | None, settings: tuple[str, ...], cwd: Path, is_offline: bool
) -> list[Finding]:
    """Look at everything a run would need; without the network where *is_offline*."""
    findings = [*installation(), *system()]
    try:
        loaded = load(manifest, settings, cwd)
        prompt = system_prompt(loaded, cwd)
    except ManifestError as problem:
        findings += [
            error("manifest", line, False, exit=Exit.USAGE) for line in problem.lines
        ]
        return findings
    roots = _write_roots(loaded, cwd)
    findings += environment(roots)
    findings += await programs(roots)
    findings += await trio.to_thread.run_sync(
        lambda: [
            *_manifest(loaded, cwd, prompt),
            *model(loaded),
            *key(loaded),
            *sandbox(loaded, cwd),
        ]
    )
    if is_offline:
        findings.append(note("endpoint", "not asked (--offline)"))
    else:
        findings += await endpoint(loaded)
    findings += sessions(Store(loaded.session_dir).folder)
    return findings


def _write_roots(loaded: Loaded, cwd: Path) -> list[str]:
    roots = loaded.manifest.permissions.write_roots
    return [os.path.realpath(resolved(root, cwd)) for root in roots]


def _manifest(loaded: Loaded, cwd: Path, prompt: str) -> Iterator[Finding]:
    """Check the manifest as a run would; the files of Python functions are run."""
    shown = "none: the defaults" if loaded.path is None else path_text(loaded.path)
    yield ok("manifest", shown, shown)
    found = model_of(loaded.manifest)
    tools = tools_of(loaded, cwd)
    overhead = 0 if tools.problems else overhead_of(tools.specs, prompt, found)
    facts = gather(
        loaded,
        cwd=cwd,
        state_dir=Store(loaded.session_dir).folder,
        window=found.window,
        unpriced=unpriced(loaded.manifest),
        overhead=overhead,
    )
    for each in check(loaded.manifest, facts):
        line = finding_line(each, loaded.sources)
        if each.level == "error":
            yield error("manifest", line, each.key, exit=Exit.USAGE)
        else:
            yield warning("manifest", line.replace("warning: ", ""), each.key)
    for problem in tools.problems:
        yield error("tools", problem, False, exit=Exit.USAGE)
    if not tools.problems:
        names = ", ".join(spec.name for spec in tools.specs) or "none"
        yield ok(
            "tools", f"{names} (with the system prompt {overhead:,} tokens)", names
        )
        yield from _besides(loaded.manifest)


def _besides(manifest: Manifest) -> Iterator[Finding]:
    """Name the hooks and listeners, which the check before has looked at, and the rules."""
    for hook in manifest.hooks:
        what = shlex.join(hook.command) if hook.command else hook.python or ""
        yield ok("hook", printable(f"{hook.event}: {what}"), hook.event)
    for listener in manifest.listeners:
        command = shlex.join(listener.command) if listener.command else ""
        what = listener.file or listener.socket or command
        yield ok("listener", printable(what), what)
    table = manifest.permissions
    count = len((*table.rules, *table.allowed_tools, *table.disallowed_tools))
    yield ok("permissions", f"{counted(count, 'rule')}, mode {table.mode}", table.mode)
