"""How other programs drive a Pod and listen to it: docs/protocol.md.

``from pod.protocol import connect`` is the client. Nothing is imported before it
is asked for: who looks at the schema needs no socket.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pod.protocol.client import Client as Client, connect as connect

__all__ = ["Client", "connect"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from pod.protocol import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
