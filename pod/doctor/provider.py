"""The model, its key, and whether its provider can be reached."""

import os
from collections.abc import Iterator
from time import monotonic
from urllib.parse import urlsplit

import trio

from pod.doctor.finding import Finding, error, note, ok, warning
from pod.errors import SetupError
from pod.exits import Exit
from pod.load_manifest import Loaded
from pod.manifest import ModelTable
from pod.open_model import model_of, scripted_policy, unpriced
from pod.toml_text import printable
from worker.keys import find_key, is_foreign, missing_key
from worker.known_models import find_known, hints

ENDPOINT_SECONDS = 5.0
ANTHROPIC = "https://api.anthropic.com"


def model(loaded: Loaded) -> Iterator[Finding]:
    """Say what is known of the model."""
    table = loaded.manifest.model
    if table.provider == "scripted":
        yield from _scripted(table)
        return
    found = model_of(loaded.manifest)
    if find_known(table.id) is None:
        for text in hints(found):
            yield warning("model", text, table.id)
    else:
        yield ok("model", table.id, table.id)
        for text in hints(found):
            yield warning("model", text, table.id)
    if found.window is None:
        yield warning(
            "window",
            "not known: compaction waits for compact_threshold, or for the provider to"
            " say that a prompt is too long",
            None,
            fix="set [model] context_window",
        )
    else:
        text = f"{found.window:,} tokens, answers up to {found.max_tokens:,}"
        yield ok("window", text, found.window)
    yield from _price(loaded)


def _scripted(table: ModelTable) -> Iterator[Finding]:
    try:
        scripted_policy(table.id)
    except SetupError as problem:
        yield error("model", str(problem), table.id, exit=problem.exit)
    else:
        yield ok("model", f"{table.id}, a policy: no provider is asked", table.id)


def _price(loaded: Loaded) -> Iterator[Finding]:
    from worker.prices import is_priced

    is_known = is_priced(loaded.manifest.model.id)
    if is_known:
        yield ok("price", "known", True)
    elif not unpriced(loaded.manifest):  # nobody asks for it
        yield note("price", "not known: costs are shown as unknown", False)
    else:
        yield error(
            "price",
            "not known: max_budget_usd cannot be kept",
            False,
            fix="limit max_total_tokens or max_requests instead",
            exit=Exit.USAGE,
        )


def key(loaded: Loaded) -> Iterator[Finding]:
    """Say whether requests can be signed; the key itself is not shown."""
    table = loaded.manifest.model
    if table.provider == "scripted":
        return
    name = table.api_key_env
    if failure := missing_key(os.environ, table.base_url, name=name):
        yield error(
            "key",
            failure.message,
            False,
            fix=f"export {name}=…",
            exit=Exit.AUTH,
        )
    elif os.environ.get(name, "").strip():
        yield ok("key", f"{name} is set", True)
    elif find_key(os.environ, table.base_url, name=name) is not None:
        text = f"{name} is not set; the server may ask for none"
        yield note("key", text, False)
    else:
        yield ok("key", "by another credential of the SDK's (a token, a profile)", True)


async def endpoint(loaded: Loaded) -> list[Finding]:
    """Ask the provider's address for nothing; no key is sent."""
    table = loaded.manifest.model
    if table.provider == "scripted":
        return []
    url = table.base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC
    shown = _shown(url)
    started = monotonic()
    why = f"no answer within {ENDPOINT_SECONDS:g} s"
    with trio.move_on_after(ENDPOINT_SECONDS):
        try:
            status = await _status(url)
        # Whatever it is that keeps a request from being answered (a name, a proxy,
        # a certificate, an address that is none, a proxy variable that is none) is
        # what a person came to hear, and the doctor has more to say after it.
        except Exception as problem:  # noqa: BLE001
            why = str(problem) or type(problem).__name__
        else:
            seconds = monotonic() - started
            text = f"{shown} answers ({status}) after {seconds:.2f} s"
            return [ok("endpoint", text, shown)]
    fix = "look at [model] base_url, the network and the proxy variables"
    if is_foreign(os.environ, table.base_url):
        fix = "start the server, or look at [model] base_url"
    return [
        error(
            "endpoint",
            f"{shown} cannot be reached: {why}",
            shown,
            fix=fix,
            exit=Exit.UNAVAILABLE,
        )
    ]


async def _status(url: str) -> int:
    import httpx2

    async with httpx2.AsyncClient(timeout=ENDPOINT_SECONDS) as client:
        # Its headers are enough; there are servers that choke on a HEAD.
        async with client.stream("GET", url) as response:
            return response.status_code


def _shown(url: str) -> str:
    """Return *url* without a name and a password that may stand in it."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return printable(f"{parts.scheme}://{place}{parts.path}")
