"""From a manifest to the summariser of a session's branches."""

from collections.abc import Sequence

from pod.branch_summary.summarizer import BranchSummarizer
from pod.manifest import Manifest
from worker.events import Listen
from worker.model import Model
from worker.turn import Setup


def open_summarizer(
    manifest: Manifest,
    setup: Setup,
    *,
    models: Sequence[Model],
    listen: Listen,
) -> BranchSummarizer:
    """Return what summarises branches as the manifest says.

    *models* are those of [compaction] models; without any it is *setup*'s. What
    is used is charged to *spent*.
    """
    return BranchSummarizer(
        setup,
        listen=listen,
        models=models,
        reserve_tokens=manifest.branch_summary.reserve_tokens,
        seconds=manifest.compaction.summarize_timeout,
    )
