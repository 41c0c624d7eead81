"""The agent: manifest, session, events, command line."""
