"""Whether the values of a manifest go together, and fit the place it is used in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from pod.check_hooks import hook_problems
from pod.check_listeners import listener_problems
from pod.compaction.limits import budgets_of, mode_of, thresholds_of
from pod.compaction.thresholds import admission_problem, low_water_problem
from pod.key_text import label
from pod.manifest import (
    BUILTIN_TOOLS,
    Manifest,
    ModelTable,
    PromptTable,
    RetryTable,
    ToolsTable,
)
from pod.merge import Source
from pod.permissions.doubts import doubts
from pod.places import HookFile, Place, no_file, shown
from pod.toml_text import quoted, toml_value
from worker.keys import SECRETS

LEAST_THINKING = 1024
"""Tokens; the Messages API refuses a smaller reasoning budget."""


class Facts(Struct, frozen=True):
    """What the check has to know of the world.

    *session_dir* is the folder in use, the default one included; *window* is
    the model's in tokens, None where unknown. *overhead* are the tokens of the
    system prompt and the tools' schemas; 0 where nobody counted them. *hooks*
    has the files of each hook, the program or the Python file first, *listeners*
    those of each listener; *steps* are
    the paths gone through to the manifest, as those of a HookFile. *unpriced* are
    models whose price is not known, where there is a budget in dollars. *led_out*
    are roots that lie in the working folder by their name, and by a link elsewhere.
    """

    read_roots: tuple[Place, ...]
    write_roots: tuple[Place, ...]
    session_dir: Place
    manifest: Place | None
    system_file: Place | None
    python: tuple[Place, ...]
    window: int | None
    unpriced: tuple[str, ...]
    overhead: int = 0
    hooks: tuple[tuple[HookFile, ...], ...] = ()
    listeners: tuple[tuple[HookFile, ...], ...] = ()
    steps: tuple[str, ...] = ()
    led_out: tuple[Place, ...] = ()


class Finding(Struct, frozen=True):
    """Something about the value of *key* (dotted).

    With an error the Pod does not start; a warning is for whoever asks.
    """

    level: Literal["error", "warning"]
    key: str
    text: str


def check(manifest: Manifest, facts: Facts) -> tuple[Finding, ...]:
    """Return what does not go together, in the order of the manifest's tables."""
    return (
        *_model(manifest.model, facts),
        *_prompt(manifest.prompt, facts),
        *_limits(manifest, facts),
        *_retry(manifest.retry),
        *_tools(manifest.tools, facts),
        *_roots(facts),
        *_permissions(manifest),
        *_sandbox(manifest),
        *_session(manifest, facts),
        *_own_files(facts),
        *_compaction(manifest, facts),
        *_hooks(manifest, facts),
        *_listeners(manifest, facts),
    )


def finding_line(finding: Finding, sources: Mapping[str, Source]) -> str:
    """Return *finding* as a line, like those of a manifest that does not load."""
    path = [int(part) if part.isdecimal() else part for part in finding.key.split(".")]
    level = "warning: " if finding.level == "warning" else ""
    source = sources[finding.key]
    place = "" if source == Source() else f"{source.place}: "
    return f"{place}{level}{label(tuple(path))}: {finding.text}"


def _error(key: str, text: str) -> Finding:
    return Finding("error", key, text)


def _warning(key: str, text: str) -> Finding:
    return Finding("warning", key, text)


def _model(model: ModelTable, facts: Facts) -> Iterator[Finding]:
    window = facts.window
    most = toml_value(model.max_tokens)
    if window is not None and model.max_tokens >= window:
        yield _error(
            "model.max_tokens",
            f"{most} output tokens leave no room for a prompt in a window of "
            f"{toml_value(window)} tokens",
        )
    if isinstance(model.thinking, int):
        budget = toml_value(model.thinking)
        if model.thinking >= model.max_tokens:
            yield _error(
                "model.thinking",
                f"a budget of {budget} tokens does not fit into max_tokens = {most}; "
                "the answer itself needs room there, too",
            )
        if model.thinking < LEAST_THINKING:
            yield _error(
                "model.thinking",
                f"a budget of {budget} tokens is below the provider's least, "
                f"{LEAST_THINKING}",
            )
    if model.temperature is not None and model.thinking not in (None, "off"):
        yield _warning(
            "model.temperature",
            "together with thinking the provider takes no temperature but 1",
        )


def _prompt(prompt: PromptTable, facts: Facts) -> Iterator[Finding]:
    if prompt.system is not None and prompt.system_file is not None:
        yield _error("prompt.system_file", "set together with system: keep one of them")
    for key, text in (("system", prompt.system), ("append", prompt.append)):
        if text is not None and not text.strip():
            yield _error(f"prompt.{key}", "a blank text; leave the key out instead")
    if facts.system_file is not None and facts.system_file.kind != "file":
        yield _error("prompt.system_file", no_file(facts.system_file))


def _limits(manifest: Manifest, facts: Facts) -> Iterator[Finding]:
    if manifest.limits.max_budget_usd is not None and facts.unpriced:
        models = " and ".join(quoted(id) for id in facts.unpriced)
        yield _error(
            "limits.max_budget_usd",
            f"the price of {models} is not known, so that this limit "
            "cannot be kept; limit max_total_tokens or max_requests instead",
        )


def _retry(retry: RetryTable) -> Iterator[Finding]:
    if retry.base > retry.cap:
        yield _error(
            "retry.base",
            f"the first wait of {retry.base:g} s is above cap = {retry.cap:g} s",
        )


def _tools(tools: ToolsTable, facts: Facts) -> Iterator[Finding]:
    for name in _repeated(tools.builtin):
        yield _error("tools.builtin", f"{quoted(name)} is listed twice")
    for spec in _repeated(tools.python):
        yield _error("tools.python", f"{quoted(spec)} is listed twice")
    functions = [spec.rpartition(":")[2] for spec in dict.fromkeys(tools.python)]
    for name in _repeated([*dict.fromkeys(tools.builtin), *functions]):
        yield _error("tools.python", f"two tools are called {quoted(name)}")
    for file in dict.fromkeys(facts.python):
        if file.kind != "file":
            yield _error("tools.python", no_file(file))
    if tools.timeout is not None and tools.timeout < tools.bash_timeout:
        yield _warning(
            "tools.bash_timeout",
            f"{tools.bash_timeout:g} s are never reached: timeout = {tools.timeout:g} s "
            "ends every tool before",
        )


def _roots(facts: Facts) -> Iterator[Finding]:
    for key, roots, does in (
        ("permissions.read_roots", facts.read_roots, "reads"),
        ("permissions.write_roots", facts.write_roots, "writes"),
    ):
        for root in roots:
            if root in facts.led_out:
                yield _warning(
                    key,
                    f"{shown(root)}: a link leads out of the working folder, and the"
                    f" model {does} there; if that is meant, name the place itself",
                )
            if root.kind == "missing":
                yield _error(key, f"there is no folder {shown(root)}: create it first")
            if root.kind == "file":
                yield _error(key, f"{shown(root)} is a file: name its folder")
    for root in facts.write_roots:
        if _root_above(root, facts.read_roots) is None:
            yield _warning(
                "permissions.write_roots",
                f"{shown(root)} lies in no read root: what the model writes there it "
                "can neither read nor edit again",
            )


def _sandbox(manifest: Manifest) -> Iterator[Finding]:
    table = manifest.sandbox
    for name in _repeated(table.env):
        yield _error("sandbox.env", f"{quoted(name)} is listed twice")
    for name in dict.fromkeys(table.env):
        if name in (*SECRETS, manifest.model.api_key_env):
            yield _error(
                "sandbox.env",
                f"{quoted(name)} holds the provider's key: no command may have it",
            )
    if "bash" in manifest.tools.builtin and table.mode == "off":
        yield _warning(
            "sandbox.mode", "commands can do whatever you can, anywhere on this machine"
        )


def _permissions(manifest: Manifest) -> Iterator[Finding]:
    functions = [spec.rpartition(":")[2] for spec in manifest.tools.python]
    for doubt in doubts(manifest.permissions, [*BUILTIN_TOOLS, *functions]):
        yield _warning(f"permissions.{doubt.key}", doubt.text)


def _session(manifest: Manifest, facts: Facts) -> Iterator[Finding]:
    root = _root_above(facts.session_dir, facts.write_roots)
    if root is None:
        return
    text = (
        f"{shown(facts.session_dir)} lies in the write root {shown(root)}: the "
        "model's tools could change the Pod's own log"
    )
    # The default folder is nobody's choice, and a Pod may well be started in
    # the home folder, or in / of a container.
    if manifest.session.dir is None:
        yield _warning("session.dir", f"{text}; set a folder outside of it")
    else:
        yield _error("session.dir", f"{text}; it has to be outside of it")


def _own_files(facts: Facts) -> Iterator[Finding]:
    """Most people keep the manifest in the folder they work on: warn, not more."""
    own = [facts.manifest, facts.system_file, *dict.fromkeys(facts.python)]
    for file in own:
        if file is None:
            continue
        root = _root_above(file, facts.write_roots)
        if root is not None:
            yield _warning(
                "permissions.write_roots",
                f"the model may write in {shown(root)}, and so change"
                f" {quoted(file.name)}, which the next run starts from; if it should"
                " not, keep that file in another folder, or let write_roots name"
                ' folders beside it, ["src"] say',
            )


def _compaction(manifest: Manifest, facts: Facts) -> Iterator[Finding]:
    table, model, window = manifest.compaction, manifest.model, facts.window
    for name in _repeated(table.order):
        yield _error("compaction.order", f"{quoted(name)} is listed twice")
    asked = {mode_of(table), *table.order}
    if "remote" in asked and table.remote_endpoint is None:
        key = "mode" if table.mode == "remote" else "order"
        yield _error(
            f"compaction.{key}",
            'there is "remote" in it, but no remote_endpoint is set',
        )
    for name in _repeated(table.models):
        yield _error("compaction.models", f"{quoted(name)} is listed twice")
    if table.summary_target > table.summary_cap:
        yield _error(
            "compaction.summary_target",
            f"{toml_value(table.summary_target)} tokens are above summary_cap ="
            f" {toml_value(table.summary_cap)}",
        )
    if not table.enabled or (window is not None and model.max_tokens >= window):
        return
    thresholds = thresholds_of(table, window=window, max_tokens=model.max_tokens)
    if thresholds is None:
        return
    budgets = budgets_of(table, facts.overhead)
    key = "compact_threshold"
    if table.compact_threshold is None and table.turn_threshold is not None:
        key = "turn_threshold"
    if problem := admission_problem(budgets, thresholds, window):
        if window and table.compact_threshold is None and table.turn_threshold is None:
            problem = (
                f"the limits that follow from a window of {toml_value(window)} tokens,"
                f" reserve_tokens = {toml_value(table.reserve_tokens)} and [model]"
                f" max_tokens = {toml_value(model.max_tokens)}: {problem}"
            )
        yield _error(f"compaction.{key}", problem)
    elif problem := low_water_problem(budgets, thresholds):
        yield _warning(f"compaction.{key}", problem)


def _hooks(manifest: Manifest, facts: Facts) -> Iterator[Finding]:
    found = hook_problems(
        manifest,
        facts.hooks,
        steps=facts.steps,
        write_roots=facts.write_roots,
    )
    return (_error(problem.key, problem.text) for problem in found)


def _listeners(manifest: Manifest, facts: Facts) -> Iterator[Finding]:
    found = listener_problems(
        manifest,
        facts.listeners,
        steps=facts.steps,
        write_roots=facts.write_roots,
    )
    return (_error(problem.key, problem.text) for problem in found)


def _root_above(place: Place, roots: Sequence[Place]) -> Place | None:
    inside = f"{place.path}/"
    return next((r for r in roots if inside.startswith(f"{r.path.rstrip('/')}/")), None)


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
