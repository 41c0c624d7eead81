"""The page of the docs on commands, made from the command line itself."""

from collections.abc import Iterator

from cyclopts import App, Argument
from docstring_parser import parse

from pod.cli import app

COMMON = ("--manifest", "--set", "--cd", "--json", "--quiet")
"""Flags of many commands, which say the same everywhere: told once."""

FIRST = ("pod run", "pod check", "pod doctor", "pod demo", "pod compact")
"""Where the page begins; the others follow as they are in the code."""

_HEAD = """\
# Commands

Every command and flag. This page is made from the command line by `scripts/make_docs.py`; `pod COMMAND --help` says the same.
Results go to standard output, what is for people to standard error. What the numbers mean that they end with:
[exit codes](events.md#outcomes-and-exit-codes).

## What many take

| flag | |
|---|---|
"""


def commands_page() -> str:
    """Return docs/commands.md: each command with its arguments and flags."""
    found = sorted(_commands(app, ("pod",)), key=_place)
    common = {flag: line for _, command in found for flag, line in _common(command)}
    lines = [common[flag] for flag in COMMON]
    for words, command in found:
        lines += ["", *_section(words, command)]
    return _HEAD + "\n".join(lines) + "\n"


def _place(command: tuple[str, App]) -> int:
    return FIRST.index(command[0]) if command[0] in FIRST else len(FIRST)


def _commands(parent: App, path: tuple[str, ...]) -> Iterator[tuple[str, App]]:
    for name in parent:
        if name.startswith("-"):
            continue
        words = (*path, name)
        if any(not each.startswith("-") for each in parent[name]):
            yield from _commands(parent[name], words)
        else:
            yield " ".join(words), parent[name]


def _arguments(command: App) -> list[Argument]:
    found = command.assemble_argument_collection()
    return [each for each in found if each.show]  # not what only holds others


def _common(command: App) -> Iterator[tuple[str, str]]:
    for each in _arguments(command):
        if each.names[0] in COMMON:
            yield each.names[0], _row(each, {})


def _section(words: str, command: App) -> Iterator[str]:
    text = parse(command.help or "")
    told = {each.arg_name: each.description or "" for each in text.params}
    arguments = _arguments(command)
    own = [each for each in arguments if each.names[0] not in COMMON]
    shared = [f"`{_short(each)}`" for each in arguments if each not in own]
    yield f"## {_usage(words, own)}"
    yield ""
    more = f" {_line(text.long_description)}" if text.long_description else ""
    takes = f" Also takes {', '.join(shared)}." if shared else ""
    yield f"{_line(text.short_description)}{more}{takes}"
    if own:
        yield ""
        yield "| argument | |"
        yield "|---|---|"
        yield from (_row(each, told) for each in own)


def _usage(words: str, own: list[Argument]) -> str:
    placed = [
        each.names[0] if each.required else f"[{each.names[0]}]"
        for each in own
        if not each.names[0].startswith("-")
    ]
    return " ".join([words, *placed])


def _row(argument: Argument, told: dict[str, str]) -> str:
    said = argument.parameter.help or told.get(argument.field_info.name, "")
    choices = argument.get_choices() or ()
    default = argument.field_info.default
    values = f" One of {', '.join(f'`{each}`' for each in choices)}." if choices else ""
    usual = f" Default: `{default}`." if choices and isinstance(default, str) else ""
    names = ", ".join(f"`{name}`" for name in _named(argument))
    return f"| {names} | {_line(f'{said}{values}{usual}')} |"


def _named(argument: Argument) -> list[str]:
    """Return the names of *argument*, the first with what it takes behind it."""
    names = list(argument.names)
    metavar = argument.parameter.metavar
    return [f"{names[0]} {metavar}", *names[1:]] if metavar else names


def _short(argument: Argument) -> str:
    return argument.names[-1]


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
