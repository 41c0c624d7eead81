"""The agent: manifest, session, events, command line.

``from pod import Pod, tool`` is the Python API (docs/python.md). Nothing is
imported before it is asked for: the command line answers at once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pod.api import Pod as Pod, tool as tool

__all__ = ["Pod", "tool"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from pod import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
