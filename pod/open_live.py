"""From a manifest and a session to a Pod that stays."""

from collections.abc import Awaitable, Callable
from functools import partial
from math import ceil
from pathlib import Path

from msgspec.structs import replace

from pod.between_runs import Doors
from pod.branch_summary.opening import open_summarizer
from pod.branch_summary.summarizer import BranchSummarizer
from pod.compaction.compactor import Tell
from pod.errors import SetupError
from pod.live import LivePod
from pod.open_model import model_of, scripted_policy, summary_models, unpriced
from pod.pod import Pod, Switched
from pod.session import Session
from pod.setup import Opened, Parts, open_pod, refuse_limits, watch_over
from worker.client import Client
from worker.model import Model
from worker.tokens import factor_for
from worker.turn import Setup


def open_live(
    parts: Parts,
    opened: Opened,
    session: Session,
    *,
    tell: Tell,
    settled: Callable[[], Awaitable[None]],
) -> LivePod:
    """Return a Pod that stays, on *session*; ``serve`` drives it.

    *tell* hears its live events; the durable ones go to ``session.on_entry``.
    """
    pod = open_pod(parts, opened, session, tell=tell, settled=settled)
    manifest = parts.manifest

    def summarizer() -> BranchSummarizer:
        models = summary_models(manifest, pod.setup.model)
        return open_summarizer(manifest, pod.setup, models=models, listen=tell)

    def fork(log: Path, entry: str | None) -> str:
        return parts.store.fork(log, entry).stem

    return LivePod(
        pod,
        listen=tell,
        auto_continue=manifest.compaction.auto_continue,
        doors=Doors(
            switch=partial(switched, parts, opened, pod, tell=tell),
            fork=fork,
            summarizer=summarizer,
            summarizes=manifest.branch_summary.enabled,
        ),
    )


def switched(
    parts: Parts, opened: Opened, pod: Pod, name: str, *, tell: Tell
) -> Switched:
    """Return what *pod* goes on with when it asks the model *name* of its provider.

    What the manifest says of a window is said of its own model alone. Raises
    SetupError for a name that is none, a model whose price is not known where
    there is a budget, and one whose window the [compaction] table has no room in.
    """
    manifest = parts.manifest
    is_own = name == manifest.model.id
    model = model_of(manifest, None if is_own else name)
    if not is_own and manifest.limits.max_budget_usd is not None:
        table = replace(manifest.model, id=name)
        if name in unpriced(replace(manifest, model=table)):
            raise SetupError(
                f"the price of {name} is not known, so limits.max_budget_usd"
                " cannot be held"
            )
    # The prompt is that of the branch: a navigation may have led to another.
    own = replace(opened.setup, system=pod.session.state.system)
    setup = setup_for(own, model)
    refuse_limits(parts, setup)
    old = pod.setup
    watching = partial(
        watch_over,
        parts,
        opened,
        pod.session,
        setup,
        files=pod.files,
        tell=tell,
        hooks=pod.hooks,
        maintenance=pod.watch.maintenance,
    )
    return Switched(setup=setup, watch=watching(), before=watching(asked=old))


def setup_for(setup: Setup, model: Model) -> Setup:
    """Return *setup* for *model* of the same provider. Raises SetupError."""
    factor, counter = factor_for(model.id), setup.counter
    output = replace(
        setup.toolbox.output, count=lambda text: ceil(counter.count(text) * factor)
    )
    return replace(
        setup,
        client=_client_for(setup.client, model),
        model=model,
        toolbox=replace(setup.toolbox, output=output),
    )


def _client_for(client: Client, model: Model) -> Client:
    """Return what asks *model*: the same connection, or the policy it names."""
    if model.provider != "scripted":
        return client
    from worker.scripted import ScriptedClient

    return ScriptedClient(scripted_policy(model.id), model)
