"""From a manifest to the summariser of a session's branches."""

from pod.branch_summary.summarizer import BranchSummarizer
from pod.manifest import Manifest
from worker.events import Listen
from worker.limits import Spent
from worker.loop import Setup


def open_summarizer(
    manifest: Manifest, setup: Setup, *, listen: Listen, spent: Spent | None = None
) -> BranchSummarizer:
    """Return what summarises branches as the manifest's [branch_summary] says.

    What it uses is charged to *spent*.
    """
    return BranchSummarizer(
        setup,
        listen=listen,
        spent=spent,
        reserve_tokens=manifest.branch_summary.reserve_tokens,
    )
