"""Making room: what decides when, where and how a history is cut."""
