"""Whether the listeners of a manifest go together, and lie where no model can write."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from pod.check_hooks import MOVE_IT, HookProblem, files_problems
from pod.manifest import ListenerTable, Manifest
from pod.places import HookFile, Place, can_write, shown
from pod.protocol.reading import EVENTS
from pod.toml_text import quoted


def listener_problems(
    manifest: Manifest,
    files: Sequence[Sequence[HookFile]],
    *,
    steps: Sequence[str],
    write_roots: Sequence[Place],
) -> Iterator[HookProblem]:
    """Return what is wrong with the listeners of *manifest*, in its order.

    *files* are those of each one, *steps* the paths gone through to the manifest
    itself. A command is run by the Pod, so what holds for hooks holds for it.
    """
    roots = [root for root in write_roots if can_write(root, steps)]
    for index, table in enumerate(manifest.listeners):
        at = f"listeners.{index}"
        for key, text in _words(table):
            yield HookProblem(f"{at}.{key}", text)
        if table.command is not None and roots:
            yield HookProblem(
                f"{at}.command",
                "a manifest with commands may not lie where the model can write, in"
                f" {shown(roots[0])}: {MOVE_IT}",
            )
        if table.command is not None:
            for text in files_problems(files[index], write_roots):
                yield HookProblem(f"{at}.command", text)
        elif table.file is not None:
            for text in _written(files[index][0], write_roots):
                yield HookProblem(f"{at}.file", text)


def _words(table: ListenerTable) -> Iterator[tuple[str, str]]:
    """Return what does not go together, each with its key."""
    places = {
        "file": table.file,
        "command": table.command,
        "socket": table.socket,
    }
    given = [name for name, value in places.items() if value is not None]
    if not given:
        yield "file", "name a file, a command or a socket"
    for name in given[1:]:
        yield name, f"set together with {given[0]}: keep one of them"
    for name in table.types:
        if name not in EVENTS:
            near = get_close_matches(name, EVENTS, n=1)
            hint = f"; did you mean {quoted(near[0])}?" if near else ""
            yield "types", f"there is no event {quoted(name)}{hint}"


def _written(file: HookFile, write_roots: Sequence[Place]) -> Iterator[str]:
    if file.place.kind == "folder":
        yield f"{shown(file.place)} is a folder"
    roots = [root for root in write_roots if can_write(root, file.steps)]
    if roots:
        yield (
            f"{shown(file.place)} lies in the write root {shown(roots[0])}: the model"
            f" could have the events written elsewhere; {MOVE_IT}"
        )
