"""The model a manifest names: what is known of it, its client, its price."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal

from pod.errors import SetupError
from pod.exits import Exit
from pod.manifest import Manifest
from worker.client import Client, OpenClient
from worker.keys import find_key, missing_key
from worker.known_models import resolve, suited
from worker.model import Model
from worker.policy import Echo, Policy
from worker.usage import Usage


def model_of(manifest: Manifest, id: str | None = None) -> Model:
    """Return the manifest's model, or the one called *id*, with what is known of it.

    What the manifest says of a window is said of its own model alone.
    """
    table = manifest.model
    return resolve(
        table.provider,
        id or table.id,
        context_window=table.context_window if id is None else None,
        max_tokens=table.max_tokens,
        thinking=table.thinking,
        effort=table.effort,
        temperature=table.temperature,
        betas=table.betas,
    )


def summary_models(manifest: Manifest, like: Model) -> list[Model]:
    """Return the models that summaries are asked of in one call, in order.

    *like* is the Pod's own; none where the manifest names none.
    """
    return [suited(model_of(manifest, id), like) for id in manifest.compaction.models]


def unpriced(manifest: Manifest) -> tuple[str, ...]:
    """Return the models by which a budget in dollars could not be held.

    Those of compactions count: a cost that is not known uses up the whole budget.
    Looks prices up only where there is a budget: that takes 0.2 s.
    """
    if manifest.limits.max_budget_usd is None or manifest.model.provider == "scripted":
        return ()
    from worker.prices import is_priced

    table = manifest.compaction
    ids = (manifest.model.id, table.worker_model, *table.models)
    asked = dict.fromkeys(id for id in ids if id is not None)
    return tuple(id for id in asked if not is_priced(id))


def client_of(manifest: Manifest) -> OpenClient:
    """Return what opens the client of the manifest's provider.

    Raises SetupError for a missing key (exit 5), or a policy that is none.
    """
    table = manifest.model
    if table.provider == "scripted":
        from worker.scripted import ScriptedClient

        policy = scripted_policy(table.id)
        model = model_of(manifest)
        return lambda: ScriptedClient(policy, model)
    name = table.api_key_env
    if failure := missing_key(os.environ, table.base_url, name=name):
        raise SetupError(failure.message, Exit.AUTH)

    def open_client() -> AbstractAsyncContextManager[Client]:
        from worker.anthropic_client import AnthropicClient

        return AnthropicClient(
            api_key=find_key(os.environ, table.base_url, name=name),
            base_url=table.base_url,
            idle_timeout=manifest.retry.idle_timeout,
        )

    return open_client


def scripted_policy(name: str) -> Policy:
    """Return the policy that ``provider = "scripted"`` names by ``model.id``.

    Raises SetupError for a name that is none.
    """
    kind, _, times = name.partition(":")
    if kind == "echo" and (times.isdecimal() or not times):
        return Echo("bash", times=int(times or 3), arguments='{"command": "true"}')
    if name == "survey":
        from pod.survey import survey

        return survey()
    raise SetupError(
        f'[model] id = "{name}": with provider = "scripted" it names a policy,'
        ' "echo" or "survey" ("echo:20" calls bash twenty times)'
    )


def price_of(manifest: Manifest) -> Callable[[str, Usage], Decimal | None]:
    """Return what prices the requests of the manifest's provider; see Setup.price."""
    if manifest.model.provider == "scripted":
        return lambda model, usage: Decimal(0)

    def price(model: str, usage: Usage) -> Decimal | None:
        from worker import prices

        return prices.price_of(model, usage)

    return price
