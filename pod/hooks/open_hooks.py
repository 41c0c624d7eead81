"""The hooks a manifest names, ready to be asked."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from pod.errors import SetupError
from pod.hooks.hook import NAME_CHARACTERS, Ask, Hook
from pod.load_manifest import Loaded
from pod.manifest import HookTable
from pod.path_text import path_text
from tools.text import short_line
from worker.keys import SECRETS


def open_hooks(loaded: Loaded, cwd: Path) -> tuple[Hook, ...]:
    """Return the hooks of *loaded*, in its order. *cwd* is where the Pod works.

    The files of Python functions are run. Raises SetupError for a function
    that cannot be loaded. What the check of the manifest refuses is not looked
    at again: it comes first.
    """
    return tuple(_hook(table, loaded, cwd) for table in loaded.manifest.hooks)


def _hook(table: HookTable, loaded: Loaded, cwd: Path) -> Hook:
    if table.command is not None:
        name = shlex.join(table.command)
        ask = _ask_command(table.command, loaded, cwd)
    else:
        name = table.python or ""
        ask = _ask_function(name, loaded.folder)
    return Hook(
        event=table.event,
        name=short_line(name, NAME_CHARACTERS),
        ask=ask,
        timeout=table.timeout,
        on_failure=table.on_failure,
        tools=table.tools,
    )


def _ask_command(words: tuple[str, ...], loaded: Loaded, cwd: Path) -> Ask:
    from pod.hooks.command import ask_command

    program = find_program(words[0], loaded) or words[0]
    key = loaded.manifest.model.api_key_env
    env = hook_environment(os.environ, key=key, cwd=cwd)
    return ask_command((str(program), *words[1:]), cwd=loaded.folder, env=env)


def _ask_function(spec: str, folder: Path) -> Ask:
    from pod.hooks.python import ask_function
    from tools.python_function import FunctionError, load_function

    try:
        return ask_function(load_function(spec, folder))
    except FunctionError as error:
        raise SetupError(f"[[hooks]] python: {error}") from error


def find_program(word: str, loaded: Loaded) -> Path | None:
    """Return the file of a command's first word, None where there is none on PATH.

    With a slash (or ``~``) in it, it is a path, relative to the manifest.
    """
    if "/" in word or word.startswith("~"):
        return loaded.beside(word)
    found = shutil.which(word)
    return None if found is None else Path(found).absolute()


def hook_environment(
    source: Mapping[str, str], *, key: str, cwd: Path
) -> dict[str, str]:
    """Return the Pod's own environment without what the provider is paid with.

    *key* is the variable that holds the API key. POD_CWD is the folder the Pod
    works in.
    """
    kept = {
        name: value
        for name, value in source.items()
        if name != key and name not in SECRETS
    }
    return {**kept, "POD_CWD": path_text(cwd)}
