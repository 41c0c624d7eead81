"""The ways to make a summary; docs/compaction.md compares them."""
