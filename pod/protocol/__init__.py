"""How other programs drive a Pod and listen to it: docs/protocol.md."""
