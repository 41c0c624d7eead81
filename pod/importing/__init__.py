"""Sessions of other agents, read into a log of Pod's own (docs/import-export.md)."""
