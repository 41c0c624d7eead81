"""A scripted model that surveys a folder: it decides from what the tools return."""

from pod.survey.policy import Survey as Survey
