"""Writes worker/model_table.py: run it after an update of genai-prices.

Windows come from genai-prices; the rest from the rules below, which say where
they come from. Not part of the wheel.
"""

import re
from pathlib import Path

from genai_prices import data_snapshot

from worker.known_models import Known, normal_id

TARGET = Path(__file__).resolve().parents[1] / "worker" / "model_table.py"

UNLISTED = ("claude-mythos-5-1", "claude-mythos-5", "claude-fable-5-1")
"""Ids the SDK names (types/model_param.py) that prices may lack: as their twins."""

HEADER = '''"""The models that are known. Written by scripts/update_models.py: do not edit."""

from worker.known_models import Known

KNOWN: dict[str, Known] = {
    model.id: model
    for model in (
'''


def version(id: str) -> tuple[int, int] | None:
    """Return the version in a normal id, (4, 5) for claude-opus-4-5."""
    found = re.fullmatch(r"claude-(?:[a-z]+-)?(\d+)(?:-(\d+))?", id)
    return (int(found[1]), int(found[2] or 0)) if found else None


def max_output(family: str, v: tuple[int, int]) -> int:
    """The models overview of the provider's documentation, "Max output"."""
    if v >= (4, 7) or (family == "opus" and v >= (4, 6)):
        return 128_000
    if v == (4, 1) or (family == "opus" and v == (4, 0)):
        return 32_000
    if v >= (3, 7):
        return 64_000
    return 8_192 if v == (3, 5) else 4_096


def describe(id: str, window: int) -> Known | None:
    """Return what is known of the model *id*, None if its name has no version."""
    v = version(id)
    if v is None:
        return None
    family = id.split("-")[1]
    return Known(
        id=id,
        window=window,
        max_output=max_output(family, v),
        # Adaptive thinking came with 4.6; budgets went with 4.7.
        adaptive=v >= (4, 6),
        budget=(3, 7) <= v < (4, 7),
        # `role: "system"` between messages: since Opus 4.8. Sonnet 5 is left
        # out: sources disagree, and text blocks are always taken.
        system_messages=v >= (4, 8) and id != "claude-sonnet-5",
        # A last assistant message is refused since 4.6.
        prefill=v < (4, 6),
        # performance.md A5; Haiku 5.5 has it by its own documentation.
        new_tokenizer=v >= (4, 7),
    )


def table() -> dict[str, Known]:
    """Build the table from the installed price data."""
    provider = next(
        p for p in data_snapshot.get_snapshot().providers if p.id == "anthropic"
    )
    windows = {normal_id(m.id): m.context_window for m in provider.models}
    for id in UNLISTED:
        windows.setdefault(id, 1_000_000)
    rows = (describe(id, window) for id, window in windows.items() if window)
    return {row.id: row for row in rows if row is not None}


def source(rows: dict[str, Known]) -> str:
    """Write the table as Python, in the form `ruff format` leaves alone."""
    lines = [HEADER]
    for id in sorted(rows):
        row = rows[id]
        lines.append("        Known(\n")
        for name in row.__struct_fields__:
            value = getattr(row, name)
            text = f'"{value}"' if isinstance(value, str) else repr(value)
            if isinstance(value, int) and not isinstance(value, bool):
                text = f"{value:_}"
            lines.append(f"            {name}={text},\n")
        lines.append("        ),\n")
    lines.append("    )\n}\n")
    return "".join(lines)


if __name__ == "__main__":
    TARGET.write_text(source(table()), encoding="utf-8")
