"""Whether a compaction is worth committing, whatever its summariser says."""

from msgspec import Struct

from pod.entries import CompactionCode


class Figures(Struct, frozen=True):
    """The size of a compaction, in tokens.

    *before* and *after* are of the whole request, overhead included. *limit* is
    what it has to be under (Thresholds.low_water, or what is left of the
    window), None where nothing is known. *min_gain* is the part of *before*
    that must be gone.
    """

    before: int
    after: int
    limit: int | None
    min_gain: float
    summary: int
    summary_cap: int


class Rejection(Struct, frozen=True):
    """Why a compaction is a failure; *message* has the figures."""

    code: CompactionCode
    message: str


def judge(summary: str, figures: Figures) -> Rejection | None:
    """Return why the compaction with this summary must not be committed, if so."""
    if not summary.strip():
        return Rejection("no_summary", "the summary is empty")
    if figures.summary > figures.summary_cap:
        return Rejection(
            "too_large",
            f"the summary has {figures.summary:,} tokens, the cap is"
            f" {figures.summary_cap:,}",
        )
    gain = figures.before - figures.after
    if gain <= 0 or gain < figures.min_gain * figures.before:
        return Rejection(
            "no_gain",
            f"the context would go from {figures.before:,} to {figures.after:,} tokens,"
            f" less than min_gain = {figures.min_gain:g} of it",
        )
    if figures.limit is not None and figures.after >= figures.limit:
        return Rejection(
            "does_not_fit",
            f"the context would have {figures.after:,} tokens, and has to be under"
            f" {figures.limit:,}",
        )
    return None
