from collections.abc import Sequence

from tools.base import Tool
from tools.scope import Scope


def file_tools(scope: Scope, names: Sequence[str]) -> list[Tool]:
    return []
