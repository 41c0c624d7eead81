"""``pod check`` and ``pod schema``."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from pod.check import check, finding_line
from pod.check_facts import gather
from pod.cli.flags import Workplace
from pod.cli.folder import load_in
from pod.cli.streams import give, kept_for_results, say
from pod.errors import SetupError
from pod.exits import Exit
from pod.hooks.open_hooks import open_hooks
from pod.load_manifest import Loaded
from pod.open_model import model_of, scripted_policy, unpriced
from pod.open_tools import open_scope, open_tools
from pod.render_manifest import render
from pod.schema import manifest_schema
from pod.setup import spec_of, system_prompt
from pod.store import Store
from worker.api import ToolSpec
from worker.counters import O200k
from worker.known_models import hints
from worker.model import Model
from worker.tokens import count_tool, factor_for


def run_check(place: Workplace) -> int:
    """Print the merged manifest to stdout, what is wrong or doubtful to stderr.

    Returns 2 where a run would be refused, but for a missing key: a manifest can
    be checked without one. Raises ManifestError.
    """
    cwd, loaded = load_in(place)
    system = system_prompt(loaded, cwd)
    model = model_of(loaded.manifest)
    problems = _policy_problems(loaded)
    tools = tools_of(loaded, cwd)
    overhead = 0 if tools.problems else overhead_of(tools.specs, system, model)
    facts = gather(
        loaded,
        cwd=cwd,
        state_dir=Store(loaded.session_dir).folder,
        window=model.window,
        unpriced=unpriced(loaded.manifest),
        overhead=overhead,
    )
    findings = check(loaded.manifest, facts)
    refused = {f.key.partition(".")[0] for f in findings if f.level == "error"}
    if refused.isdisjoint(("tools", "permissions", "hooks")):  # else it is said already
        problems += tools.problems
    give(render(loaded.manifest, loaded.sources))
    for finding in findings:
        say(finding_line(finding, loaded.sources) + "\n")
    for hint in hints(model):
        say(f"warning: {hint}\n")
    for problem in problems:
        say(f"{problem}\n")
    errors = sum(finding.level == "error" for finding in findings) + len(problems)
    if errors:
        say(f"pod: {errors} to mend before this can run\n")
        return Exit.USAGE
    return Exit.DONE


class OpenedTools(Struct, frozen=True):
    """The tools as a model is told of them, or why they cannot be had."""

    specs: tuple[ToolSpec, ...] = ()
    problems: tuple[str, ...] = ()


def tools_of(loaded: Loaded, cwd: Path) -> OpenedTools:
    """Open tools and hooks as a run does: the files of Python functions are run.

    What they print goes to stderr.
    """
    with TemporaryDirectory() as spill, kept_for_results():
        try:
            with open_scope(loaded, cwd, Path(spill) / "files") as scope:
                tools = open_tools(loaded, cwd, scope)
                open_hooks(loaded, cwd)
                return OpenedTools(specs=tuple(map(spec_of, tools)))
        except SetupError as error:
            return OpenedTools(problems=(str(error),))


def _policy_problems(loaded: Loaded) -> tuple[str, ...]:
    model = loaded.manifest.model
    if model.provider == "scripted":
        try:
            scripted_policy(model.id)
        except SetupError as error:
            return (str(error),)
    return ()


def overhead_of(specs: Sequence[ToolSpec], system: str, model: Model) -> int:
    """Return the tokens of the system prompt and of the tools."""
    counter = O200k(say)
    tokens = counter.count(system) + sum(count_tool(spec, counter) for spec in specs)
    return ceil(tokens * factor_for(model.id))


def print_schema() -> int:
    """Print the manifest's JSON Schema."""
    give(manifest_schema().rstrip("\n") + "\n")
    return Exit.DONE
