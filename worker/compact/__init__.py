"""The compact worker: a disposable agent that writes the summary."""
