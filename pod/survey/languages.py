"""How definitions, comments and open work look in the languages a survey meets."""

import re

from msgspec import Struct

MOST_CHARS = 300
"""Of a line. Longer ones hold data, and patterns get slow on them."""


class Language(Struct, frozen=True):
    r"""How to find what a file of a kind defines.

    *definition* matches a line and has the groups indent, word and name.
    *comment* are the signs that begin a comment.
    """

    definition: str
    comment: tuple[str, ...]


class Definition(Struct, frozen=True):
    """Something a line defines. *word* is the language's: class, fn and so on."""

    line: int
    indent: int
    word: str
    name: str


CONTAINERS = frozenset(
    [
        *("class", "struct", "enum", "trait", "impl", "interface", "module"),
        *("namespace", "object", "record", "protocol", "extension", "type"),
    ]
)
"""Words for definitions that hold others."""

FENCE = "```|~~~"
"""Around code in Markdown; what looks like a heading in there is none."""

_HASH = ("#",)
_SLASHES = ("//", "/*", "*")
_C_FAMILY = (
    r"^(\s*)(?:template\s*<[^>]*>\s*)?(?:(?:public|private|protected|internal|static|"
    r"final|abstract|sealed|export|open|data|partial|inline|typedef)\s+)*"
    r"(class|struct|enum|union|interface|namespace|record|object|trait|protocol|"
    r"extension)\s+(?:class\s+)?(\w+)(?![\w\s*&]*[;=(])"
)
_LANGUAGES = {
    "Python": Language(r"^(\s*)(?:async\s+)?(class|def)\s+(\w+)", (*_HASH, '"""')),
    "JavaScript": Language(
        r"^(\s*)(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
        r"(class|function\*?|interface|enum|namespace|type(?=\s+\w+\s*[=<])|"
        r"(?:const|let|var)(?=\s+\w+\s*(?::[^=]+)?=\s*(?:async\b|function\b|\([^)]*\)[^=]*=>|"
        r"\w+\s*=>)))\s+(\w+)",
        _SLASHES,
    ),
    "Go": Language(r"^()(func|type)\s+(?:\([^)]*\)\s*)?(\w+)", _SLASHES),
    "Rust": Language(
        r"^(\s*)(?:pub(?:\([^)]*\))?\s+)?(?:(?:async|unsafe|const|extern(?:\s*\"[^\"]*\")?)\s+)*"
        r"(fn|struct|enum|trait|impl|mod|union|macro_rules!)(?:<[^>]*>)?\s+([\w:]+)",
        _SLASHES,
    ),
    "C": Language(
        rf"{_C_FAMILY}|^()()[A-Za-z_][\w \t*]*?[\s*](\w+)\s*\([^;]*$", _SLASHES
    ),
    "C++": Language(
        rf"{_C_FAMILY}|^()()[A-Za-z_][\w \t*&:<>,]*?[\s*&]([\w:~]+)\s*\([^;]*$",
        _SLASHES,
    ),
    "Java": Language(
        rf"{_C_FAMILY}|^(\s+)()(?:public|protected|private|static|final|override|async|"
        r"virtual)\s[\w<>\[\], ?.]*?(\w+)\s*\([^;]*$",
        _SLASHES,
    ),
    "Kotlin": Language(
        rf"{_C_FAMILY}|^(\s*)(?:(?:public|private|internal|override|suspend|open|inline|"
        r"static|mutating)\s+)*(fun|func)\s+(?:<[^>]*>\s*)?([\w.]+)",
        _SLASHES,
    ),
    "Ruby": Language(r"^(\s*)(class|module|def)\s+([\w.:?!]+)", _HASH),
    "PHP": Language(
        r"^(\s*)(?:(?:abstract|final|public|private|protected|static)\s+)*"
        r"(class|interface|trait|function)\s+(\w+)",
        (*_SLASHES, "#"),
    ),
    "Perl": Language(r"^(\s*)(sub|package)\s+([\w:]+)", _HASH),
    "Lua": Language(r"^(\s*)(?:local\s+)?(function)\s+([\w.:]+)", ("--",)),
    "Shell": Language(r"^(\s*)(?:(function)\s+)?([\w-]+)\s*\(\)\s*[{(]?\s*", _HASH),
    "SQL": Language(
        r"^(\s*)create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:unique\s+)?"
        r"(table|view|index|function|procedure|trigger|type)\s+(?:if\s+not\s+exists\s+)?"
        r"([\w.\"`]+)",
        ("--",),
    ),
    "Make": Language(r"^()()([A-Za-z][\w./-]*)\s*:(?!=)", _HASH),
    "Terraform": Language(
        r"^()(resource|module|variable|output|data|provider)\s+(\"[^\"]+\"(?:\s+\"[^\"]+\")?)",
        (*_HASH, "//"),
    ),
    "Protocol Buffers": Language(r"^(\s*)(message|service|enum|rpc)\s+(\w+)", _SLASHES),
    "GraphQL": Language(r"^()(type|input|enum|interface|union|scalar)\s+(\w+)", _HASH),
    "CSS": Language(r"^()(@\w+)\s+([^{;]+?)\s*\{", ("/*", "//")),
    "INI": Language(r"^()(\[)([^\]]+)\]", (";", "#")),
    "TOML": Language(r"^()(\[\[?)([^\]]+)\]", _HASH),
    "YAML": Language(r"^()()([A-Za-z_][\w .-]*):(?:\s|$)", _HASH),
    "JSON": Language(r"^(  |\t|    )()\"([^\"]+)\"\s*:", ()),
    "Dockerfile": Language(r"^()(FROM)\s+(\S+)", _HASH),
    "Markdown": Language(
        rf"^()(#{{1,4}})\s+(.+?)\s*#*\s*$|^(\s*)({FENCE})(.*)$", ("<!--",)
    ),
}
for _like, _kinds in {
    "JavaScript": ("TypeScript", "Vue", "Svelte"),
    "Java": ("C#",),
    "Kotlin": ("Swift", "Scala"),
    "C++": ("CUDA",),
}.items():
    for _kind in _kinds:
        _LANGUAGES[_kind] = _LANGUAGES[_like]
_PLAIN = Language("", ("#", "//", "/*", "*", "--", ";", "%", "<!--"))
_COMPILED = {
    kind: re.compile(language.definition, re.IGNORECASE if kind == "SQL" else 0)
    for kind, language in _LANGUAGES.items()
}

OPEN_WORK = r"\b(?:TODO|FIXME|XXX|HACK)\b"
# Only where somebody says it, not where it is spoken of: behind a comment's
# sign, or as the first thing on a line.
_OPEN_WORK = re.compile(
    r"(?:^\s*(?:[-*+]\s+(?:\[ \]\s*)?)?|(?:#|//|/\*|\*|--|;|<!--|%|\"\"\"|'''|REM)\s*@?)"
    r"\b((TODO|FIXME|XXX|HACK)\b[\s:(\[-].*|(?:TODO|FIXME|XXX|HACK)$)"
)
_COMMENT_END = re.compile(r"\s*(?:\*/|-->|\"\"\"|''')\s*$")


def language_of(kind: str) -> Language:
    """Return how files of *kind* look; nothing is defined in most of them."""
    return _LANGUAGES.get(kind, _PLAIN)


def search_pattern(kind: str) -> str:
    """Return a pattern for grep: definitions of *kind*, and open work."""
    definition = language_of(kind).definition
    if not definition:
        return OPEN_WORK
    return f"{definition}|{OPEN_WORK}"


def definition_in(kind: str, number: int, line: str) -> Definition | None:
    """Return what *line* defines in a file of *kind*."""
    compiled = _COMPILED.get(kind)
    found = compiled.search(line[:MOST_CHARS]) if compiled is not None else None
    if found is None:
        return None
    groups = [group for group in found.groups() if group is not None]
    if len(groups) == 2:  # an optional word is not there
        groups.insert(1, "")
    if len(groups) != 3 or groups[2] in _NO_NAMES:
        return None
    indent = len(groups[0].expandtabs(4))
    return Definition(number, indent, groups[1], groups[2].strip())


_NO_NAMES = frozenset(
    [
        *("if", "for", "while", "switch", "catch", "return", "else", "elif", "do"),
        *("sizeof", "defined", "assert"),
    ]
)


def open_work_in(line: str) -> str | None:
    """Return what *line* says is still to do, from the word TODO (or its like) on."""
    found = _OPEN_WORK.search(line[: 2 * MOST_CHARS])
    return _COMMENT_END.sub("", found[1]).strip() if found else None
