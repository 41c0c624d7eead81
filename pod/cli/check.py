"""``pod check`` and ``pod schema``."""

from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

from pod.check import check, finding_line
from pod.check_facts import gather
from pod.cli.folder import working_folder
from pod.cli.streams import give, say
from pod.errors import SetupError
from pod.exits import Exit
from pod.load_manifest import Loaded, load
from pod.open_tools import builtin_tools, open_scope
from pod.render_manifest import render
from pod.schema import manifest_schema
from pod.setup import is_price_known, model_of, spec_of, system_prompt
from pod.store import Store
from worker.counters import O200k
from worker.known_models import hints
from worker.model import Model
from worker.tokens import count_tool, factor_for


def run_check(
    manifest: Path | None, *, settings: tuple[str, ...], cd: Path | None
) -> int:
    """Print the merged manifest to stdout, what is wrong or doubtful to stderr.

    Returns 2 where a run would be refused. Raises ManifestError.
    """
    cwd = working_folder(cd)
    loaded = load(manifest, settings, cwd)
    system = system_prompt(loaded, cwd)
    model = model_of(loaded.manifest)
    facts = gather(
        loaded,
        cwd=cwd,
        state_dir=Store(loaded.session_dir).folder,
        window=model.window,
        is_price_known=is_price_known(loaded.manifest),
        overhead=_overhead(loaded, cwd, system, model),
    )
    findings = check(loaded.manifest, facts)
    give(render(loaded.manifest, loaded.sources))
    for finding in findings:
        say(finding_line(finding, loaded.sources) + "\n")
    for hint in hints(model):
        say(f"warning: {hint}\n")
    errors = sum(finding.level == "error" for finding in findings)
    if errors:
        say(f"pod: {errors} to mend before this can run\n")
        return Exit.USAGE
    return Exit.DONE


def _overhead(loaded: Loaded, cwd: Path, system: str, model: Model) -> int:
    """Return the tokens of the system prompt and of the tools of ours.

    Python functions are left out: a check runs nobody's code. 0 where the
    roots cannot be opened, which the check itself says.
    """
    counter = O200k(say)
    with TemporaryDirectory() as spill:
        try:
            with open_scope(loaded, cwd, Path(spill) / "files") as scope:
                specs = [spec_of(tool) for tool in builtin_tools(loaded, cwd, scope)]
        except SetupError:
            return 0
    tokens = counter.count(system) + sum(count_tool(spec, counter) for spec in specs)
    return ceil(tokens * factor_for(model.id))


def print_schema() -> int:
    """Print the manifest's JSON Schema."""
    give(manifest_schema().rstrip("\n") + "\n")
    return Exit.DONE
