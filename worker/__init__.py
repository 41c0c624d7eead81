"""One LLM worker: items, wire format, model clients, the turn loop."""
