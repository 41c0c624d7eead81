"""``pod check`` and ``pod schema``."""

from pathlib import Path

from pod.check import check, finding_line
from pod.check_facts import gather
from pod.cli.folder import working_folder
from pod.cli.streams import give, say
from pod.exits import Exit
from pod.load_manifest import load, system_text
from pod.render_manifest import render
from pod.schema import manifest_schema
from pod.setup import is_price_known, model_of
from pod.store import Store
from worker.known_models import hints


def run_check(
    manifest: Path | None, *, settings: tuple[str, ...], cd: Path | None
) -> int:
    """Print the merged manifest to stdout, what is wrong or doubtful to stderr.

    Returns 2 where a run would be refused. Raises ManifestError.
    """
    cwd = working_folder(cd)
    loaded = load(manifest, settings, cwd)
    system_text(loaded, "")
    model = model_of(loaded.manifest)
    facts = gather(
        loaded,
        cwd=cwd,
        state_dir=Store(loaded.session_dir).folder,
        window=model.window,
        is_price_known=is_price_known(loaded.manifest),
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


def print_schema() -> int:
    """Print the manifest's JSON Schema."""
    give(manifest_schema().rstrip("\n") + "\n")
    return Exit.DONE
