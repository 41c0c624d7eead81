"""What kind of file something is: by its name, then by its first line."""

import re

UNKNOWN = "Text"

_BY_SUFFIX = {
    "Python": "py pyi pyw",
    "JavaScript": "js mjs cjs jsx",
    "TypeScript": "ts tsx mts cts",
    "Go": "go",
    "Rust": "rs",
    "C": "c h",
    "C++": "cc cpp cxx hpp hh hxx tcc ipp",
    "CUDA": "cu cuh hip",
    "Objective-C": "m mm",
    "Fortran": "f f90 f95",
    "Assembly": "s asm",
    "Batch": "bat cmd",
    "PowerShell": "ps1 psm1",
    "C#": "cs",
    "Java": "java",
    "Kotlin": "kt kts",
    "Swift": "swift",
    "Scala": "scala",
    "Ruby": "rb rake gemspec",
    "PHP": "php",
    "Perl": "pl pm",
    "Lua": "lua",
    "R": "r",
    "Shell": "sh bash zsh ksh fish",
    "SQL": "sql",
    "Markdown": "md markdown mdx",
    "reStructuredText": "rst",
    "Text": "txt text",
    "HTML": "html htm xhtml",
    "CSS": "css scss sass less",
    "Vue": "vue",
    "Svelte": "svelte",
    "XML": "xml xsd xsl svg plist",
    "JSON": "json webmanifest",
    "JSON lines": "jsonl ndjson",
    "TOML": "toml",
    "YAML": "yaml yml",
    "INI": "ini cfg conf properties editorconfig desktop service socket timer",
    "CSV": "csv tsv",
    "Notebook": "ipynb",
    "Protocol Buffers": "proto",
    "GraphQL": "graphql gql",
    "Terraform": "tf tfvars",
    "Nix": "nix",
    "Log": "log",
    "Patch": "patch diff",
    "Make": "mk",
    "CMake": "cmake",
    "Dockerfile": "dockerfile",
    "TeX": "tex bib sty",
}
_BY_NAME = {
    "makefile": "Make",
    "gnumakefile": "Make",
    "cmakelists.txt": "CMake",
    "dockerfile": "Dockerfile",
    "containerfile": "Dockerfile",
    "rakefile": "Ruby",
    "gemfile": "Ruby",
    "jenkinsfile": "Groovy",
    "license": "Licence",
    "licence": "Licence",
    "copying": "Licence",
    "license.txt": "Licence",
    "license.md": "Licence",
    "notice": "Text",
    "requirements.txt": "Requirements",
    ".gitignore": "Ignore rules",
    ".dockerignore": "Ignore rules",
    ".npmignore": "Ignore rules",
    ".gitattributes": "Git attributes",
    ".editorconfig": "INI",
    ".bashrc": "Shell",
    ".profile": "Shell",
    "py.typed": "Marker",
}
_SUFFIXES = {
    suffix: kind for kind, line in _BY_SUFFIX.items() for suffix in line.split()
}
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-S\s+)?)?(?:\S*/)?([A-Za-z]+)")
_INTERPRETERS = {
    "python": "Python",
    "pypy": "Python",
    "bash": "Shell",
    "sh": "Shell",
    "dash": "Shell",
    "zsh": "Shell",
    "ksh": "Shell",
    "node": "JavaScript",
    "deno": "TypeScript",
    "ruby": "Ruby",
    "perl": "Perl",
    "php": "PHP",
    "lua": "Lua",
    "awk": "Awk",
    "make": "Make",
}


def kind_by_name(path: str) -> str:
    """Return the kind that the name tells, UNKNOWN where it tells none."""
    name = path.rpartition("/")[2].lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    stem, _, suffix = name.removesuffix(".in").rpartition(".")
    if stem and suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return _BY_NAME.get(name.partition(".")[0], UNKNOWN)


def kind_of(path: str, first: str) -> str:
    """Return the kind of a file whose first line is *first*."""
    kind = kind_by_name(path)
    if kind != UNKNOWN:
        return kind
    if found := _SHEBANG.match(first):
        return _INTERPRETERS.get(found[1].lower(), "Script")
    if "-*- C++ -*-" in first:
        return "C++"
    start = first.lstrip().lower()
    if start.startswith("<?xml"):
        return "XML"
    if start.startswith(("<!doctype html", "<html")):
        return "HTML"
    if start.startswith(("{", "[{")):
        return "JSON lines" if start.rstrip().endswith("}") else "JSON"
    return UNKNOWN
