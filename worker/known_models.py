"""What is known of models before they are asked: windows, limits, manners.

The rows are in model_table.py, which a script writes. What the manifest says
always goes before them.
"""

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from worker.model import Model


class Known(Struct, frozen=True):
    """A model of the catalogue. *window* and *max_output* are tokens.

    *id* is in normal form. *adaptive* and *budget* say which kinds of thinking
    it takes; *new_tokenizer*, that the same text has more tokens (since Opus
    4.7).
    """

    id: str
    window: int
    max_output: int
    adaptive: bool
    budget: bool
    system_messages: bool
    prefill: bool
    new_tokenizer: bool


_FAMILIES = "opus|sonnet|haiku|fable|mythos|instant"
_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.")
_SUFFIX = re.compile(
    r"(?:\[1m\]|:[a-z]+|-v\d+(?::\d+)?|[-@]\d{8}|-\d{4}-\d{2}-\d{2}|[-@]latest|@default)$"
)
_VERSION_FIRST = re.compile(rf"^claude-(\d+(?:-\d+)?)-({_FAMILIES})\b")


def normal_id(id: str) -> str:
    """Bring the ways to name a model to one: ``claude-<family>-<version>``.

    Drops what gateways and clouds put around it (``anthropic/``,
    ``us.anthropic.``, ``-v1:0``, ``@20250929``) and dates.
    """
    name = _VENDOR.sub("", id.strip().lower().rsplit("/", 1)[-1])
    while (shorter := _SUFFIX.sub("", name)) != name:
        name = shorter
    name = re.sub(r"(?<=\d)\.(?=\d)", "-", name)
    name = _VERSION_FIRST.sub(r"claude-\2-\1", name)
    return name.removesuffix("-0") if name.startswith("claude-") else name


def find_known(id: str) -> Known | None:
    """Return what is known of the model called *id*, None if nothing."""
    from worker.model_table import KNOWN

    return KNOWN.get(normal_id(id))


def resolve(
    provider: Literal["anthropic", "scripted"],
    id: str,
    *,
    context_window: int | None = None,
    max_tokens: int = 32_000,
    thinking: Literal["adaptive", "off"] | int | None = None,
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None,
    temperature: float | None = None,
    betas: tuple[str, ...] = (),
) -> Model:
    """Put together what the manifest says and what is known of the model.

    A *context_window* that is given stands, whatever the catalogue has. Of
    *max_tokens* the smaller one counts, and no answer may take more than half
    of the window.
    """
    known = find_known(id) if provider == "anthropic" else None
    window = context_window or (known.window if known else None)
    if known is not None:
        max_tokens = min(max_tokens, known.max_output)
    if window is not None:
        max_tokens = max(min(max_tokens, window // 2), 1)
    return Model(
        provider=provider,
        id=id,
        window=window,
        max_tokens=max_tokens,
        thinking=thinking,
        effort=effort,
        temperature=temperature,
        system_messages=known is not None and known.system_messages,
        prefill=known is not None and known.prefill,
        betas=betas,
    )


def suited(model: Model, like: Model) -> Model:
    """Return *model* without the thinking of *like* that it is not known to take.

    What a manifest says of thinking and effort is meant for its own model; another
    one may refuse a request for it.
    """
    thinking = model.thinking
    if thinking in (None, "off") or normal_id(model.id) == normal_id(like.id):
        return model
    known = find_known(model.id) if model.provider == "anthropic" else None
    if known is None:
        return replace(model, thinking=None)
    takes = known.budget if isinstance(thinking, int) else known.adaptive
    return model if takes else replace(model, thinking=None)


def hints(model: Model) -> tuple[str, ...]:
    """Say what looks wrong in the choice of *model*; none of it is an error."""
    if model.provider != "anthropic":
        return ()
    known = find_known(model.id)
    if known is None:
        return (_unknown(model),)
    texts = []
    if isinstance(model.thinking, int) and not known.budget:
        texts.append(
            f'{model.id} takes no thinking budget: set [model] thinking = "adaptive"'
        )
    if model.thinking == "adaptive" and not known.adaptive:
        texts.append(
            f"{model.id} takes no adaptive thinking: "
            "set [model] thinking to a number of tokens"
        )
    return tuple(texts)


def _unknown(model: Model) -> str:
    from difflib import get_close_matches

    from worker.model_table import KNOWN

    near = get_close_matches(normal_id(model.id), KNOWN, n=1, cutoff=0.8)
    text = f'nothing is known of a model called "{model.id}"'
    if near:
        text += f': did you mean "{near[0]}"?'
    if model.window is None:
        text += " Set [model] context_window to its window in tokens"
        text = text if near else text.replace(" Set", ": set")
    return text
