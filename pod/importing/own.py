"""The words in which Pod's exports to pi keep what pi has no place for."""

OWN_TYPE = "pod/"
"""What the customType of an entry begins with that is kept whole."""
END = "pod/end"
"""The customType of a last line that only says where the session stands."""
SYSTEM_TEXT = "pod/system_text"
"""The customType of a message that is a SystemText of its own."""

OWN_KINDS = frozenset(
    {
        "usage",
        "run_start",
        "run_end",
        "tool_start",
        "notice",
        "prune",
        "clip",
        "compaction_start",
        "compaction_failed",
        "breaker",
    }
)
"""Kinds that an export keeps whole and an import takes back: none of them puts
words of its own before the model (as an input that waits would) or changes what
it may do."""
