"""A scripted model that surveys a folder: it decides from what the tools return."""

from pod.survey.compaction import TOOL, Compact as Compact
from pod.survey.once import Once as Once
from pod.survey.policy import Survey as Survey
from worker.policy import Policy, Route


def survey() -> Policy:
    """Return the model of ``provider = "scripted"``, ``id = "survey"``.

    It plays the Pod's compact workers, too, and who is asked once for a summary.
    """
    return Once(Route({TOOL: Compact()}, Survey()))
