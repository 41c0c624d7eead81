"""What usage costs in dollars, from the offline prices of genai-prices.

Imported only when a cost is wanted: genai-prices takes 0.2 s and 27 MB.
"""

from decimal import Decimal

from worker.known_models import find_known
from worker.usage import Usage


def price_of(model: str, usage: Usage) -> Decimal | None:
    """Return what *usage* of *model* costs in US dollars, None where unknown.

    List prices of the Messages API, without discounts. Never raises.
    """
    from genai_prices import Usage as Priced, calc_price

    cached_read = max(usage.cache_read, 0)
    cached_write = max(usage.cache_write, usage.cache_write_1h, 0)
    hour = min(max(usage.cache_write_1h, 0), cached_write)
    output = max(usage.output, 0)
    priced = Priced(
        # Here the input is the whole prompt; what was cached is part of it.
        input_tokens=max(usage.input, 0) + cached_read + cached_write,
        cache_read_tokens=cached_read,
        cache_write_tokens=cached_write,
        cache_write_1h_tokens=hour,
        output_tokens=output,
        output_reasoning_tokens=min(max(usage.reasoning, 0), output),
        web_searches=max(usage.web_searches, 0),
    )
    for name in _names(model):
        try:
            return calc_price(priced, name, provider_id="anthropic").total_price
        except LookupError:
            continue  # not under this name
        except ValueError:
            return None  # figures that contradict each other
    return None


def is_priced(model: str) -> bool:
    """Return whether price_of knows *model*."""
    return price_of(model, Usage(input=1, output=1)) is not None


def _names(model: str) -> tuple[str, ...]:
    """Return the names to look under: as given, then as the catalogue has it."""
    known = find_known(model)
    return (model,) if known is None or known.id == model else (model, known.id)
