"""Whether the hooks of a manifest go together, and lie where no model can write."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from msgspec import Struct

from pod.hooks.hook import on_failure_problem, tools_problem
from pod.manifest import BUILTIN_TOOLS, HookTable, Manifest
from pod.places import HookFile, Place, can_write, no_file, shown
from pod.toml_text import quoted

COMPACT_TOOLS = ("mark_read_required", "add_reference", "write_summary")
"""Tools that only a compact worker has."""

MOVE_IT = (
    'keep it in another folder, or let write_roots name folders beside it, ["src"] say'
)


class HookProblem(Struct, frozen=True):
    """Why a Pod does not start with the value of *key*, dotted: ``hooks.0.event``."""

    key: str
    text: str


def hook_problems(
    manifest: Manifest,
    files: Sequence[Sequence[HookFile]],
    *,
    steps: Sequence[str],
    write_roots: Sequence[Place],
) -> Iterator[HookProblem]:
    """Return what is wrong with the hooks of *manifest*, in its order.

    *files* are those of each hook, *steps* the paths gone through to the
    manifest itself.
    """
    roots = [root for root in write_roots if can_write(root, steps)]
    if manifest.hooks and roots:
        yield HookProblem(
            "hooks.0.event",
            "a manifest with hooks may not lie where the model can write, in"
            f" {shown(roots[0])}: {MOVE_IT}",
        )
    functions = [spec.rpartition(":")[2] for spec in manifest.tools.python]
    tools = (*BUILTIN_TOOLS, *COMPACT_TOOLS, *functions)
    for index, hook in enumerate(manifest.hooks):
        at = f"hooks.{index}"
        for key, text in _words(hook, tools):
            yield HookProblem(f"{at}.{key}", text)
        key = "python" if hook.command is None else "command"
        for text in files_problems(files[index], write_roots):
            yield HookProblem(f"{at}.{key}", text)


def _words(hook: HookTable, tools: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return what does not go together, each with its key."""
    if hook.command is None and hook.python is None:
        yield "event", "name a command, or a function with python"
    if hook.command is not None and hook.python is not None:
        yield "python", "set together with command: keep one of them"
    if problem := on_failure_problem(hook.event, hook.on_failure):
        yield "on_failure", problem
    if problem := tools_problem(hook.event, hook.tools):
        yield "tools", problem
    for tool in hook.tools:
        if tool not in tools:
            near = get_close_matches(tool, tools, n=1)
            hint = f"; did you mean {quoted(near[0])}?" if near else ""
            yield "tools", f"there is no tool {quoted(tool)}{hint}"


def files_problems(
    files: Sequence[HookFile], write_roots: Sequence[Place]
) -> Iterator[str]:
    """Return why a command or a function made of *files* is not run."""
    for file in files:
        if file.place.kind != "file":
            yield no_file(file.place)
        elif not file.is_executable:
            yield f"{shown(file.place)} is not executable: chmod +x it"
        roots = [root for root in write_roots if can_write(root, file.steps)]
        if roots:
            yield (
                f"{shown(file.place)} lies in the write root {shown(roots[0])}: the"
                f" model could change what the Pod then runs; {MOVE_IT}"
            )
