"""Sessions of Pod's, written for others: docs/import-export.md."""
