"""What is in a file, told from its lines."""

import pytest
from hypothesis import given, strategies as st

from pod.survey.kinds import kind_of
from pod.survey.languages import open_work_in
from pod.survey.outline import about, outline

KINDS = ["Python", "C", "C++", "Java", "TypeScript", "Markdown", "JSON", "Text", "SQL"]


def numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n"), start=1))


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        (
            "a.py",
            (
                "class A(B):\n    def x(self):\n        def no(): pass\n"
                "    async def y(self): ...\n\nasync def f(): ...\n@d\ndef g(): ..."
            ),
            ["- class `A` (line 1): `x`, `y`", "- functions: `f`, `g`"],
        ),
        (
            "a.ts",
            (
                "export default class A {\n  x() {}\n}\nexport async function f() {}\n"
                "export const g = async (x) => 1\nconst no = 1\ntype T = string;\n"
                "interface I {}"
            ),
            [
                "- class `A` (line 1)",
                "- type `T` (line 7)",
                "- interface `I` (line 8)",
                "- functions: `f`",
                "- functions: `g`",
            ],
        ),
        (
            "a.go",
            "package x\nfunc F() {}\nfunc (t *T) M() {}\ntype T struct {\n",
            ["- type `T` (line 4)", "- functions: `F`, `M`"],
        ),
        (
            "a.rs",
            (
                "pub struct S;\nimpl S {\n    pub async fn m(&self) {}\n}\n"
                "pub(crate) fn f() {}\nmod m;\nmacro_rules! k {}"
            ),
            [
                "- struct `S` (line 1)",
                "- impl `S` (line 2): `m`",
                "- functions: `f`",
                "- mod: `m`",
                "- macro_rules!: `k`",
            ],
        ),
        (
            "a.c",
            (
                "#include <x.h>\nstruct s {\n};\nstatic int f(int x)\n{\n    g(x);\n"
                "    if (x) {\n}\nint proto(void);\nreturn (x);"
            ),
            ["- struct `s` (line 2)", "- `f`"],
        ),
        (
            "A.java",
            (
                "public final class A {\n    private int x = f(1);\n"
                "    public static void main(String[] a) {\n        g();\n    }\n}"
            ),
            ["- class `A` (line 1): `main`"],
        ),
        ("a.sh", "f() {\n  g\n}\nfunction h {\necho x", ["- `f`"]),
        (
            "a.sql",
            "create table if not exists t (x int);\nCREATE INDEX i on t;\nselect 1;",
            ["- table: `t`", "- INDEX: `i`"],
        ),
        (
            "a.md",
            "# One\n```sh\n# no heading\n```\n## Two #\ntext\n### Three *x*",
            ["- One", "  - Two", r"    - Three \*x\*"],
        ),
        ("a.md", "text\n\n## Only\n### Sub", ["- Only", "  - Sub"]),
        ("a.rst", "Title\n=====\n\ntext\n\nPart\n----\n....", ["- Title", "- Part"]),
        ("a.json", '{\n  "a": {\n    "no": 1\n  },\n  "b": 2\n}', ["- `a`, `b`"]),
        (
            "a.json",
            '{"a": {"no": "}"}, "b": [{"no": 1}], "c\\"d": 3',
            ['- `a`, `b`, `c\\\\"d`'],
        ),
        ("a.json", '[{"a": 1}, {"b": 2}]', ["- `a`"]),
        ("a.jsonl", '{"a": 1}\n{"b": 2}', ["- `a`"]),
        ("a.toml", "x = 1\n[a]\n[a.b]\n[[c]]", ["- `a`, `a.b`, `c`"]),
        ("a.yaml", "a:\n  no: 1\nb: 2\n- no: 3", ["- `a`, `b`"]),
        ("a.csv", "x,y,z\n1,2,3", ["- columns: `x`, `y`, `z`"]),
        ("Makefile", "all: x\n\tcc\nx := 1\n.PHONY: all", ["- `all`"]),
        ("notes", "just words", []),
    ],
)
def test_an_outline_names_what_a_file_defines(
    name: str, text: str, shown: list[str]
) -> None:
    kind = kind_of(name, text.partition("\n")[0])

    assert outline(kind, numbered(text)) == shown


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.py",
            '#!/usr/bin/python\n"""Counts all\nthe things. More."""',
            "Counts all the things.",
        ),
        ("a.py", "# Copyright me\n\n# Counts things.\nimport x", "Counts things."),
        ("a.py", "import x\n# later", ""),
        ("a.go", "// Package x counts.\npackage x", "Package x counts."),
        ("a.c", "/* Counts\n * things. */\nint x;", "Counts things."),
        (
            "a.md",
            "# T\n[![badge](http://x)](http://y)\n\nSee [a](b.md) and\nmore.",
            "See a and more.",
        ),
        ("a.html", "<html><head>\n<title>The page</title>", "The page"),
        ("a.json", '{"a": 1}', ""),
        ("words", "\n\nFirst words\nmore", "First words"),
        ("run", "#!/bin/sh\n# Runs it.\n", "Runs it."),
        ("x.txt", "y" * 500, "y" * 159 + "…"),
    ],
)
def test_a_file_says_what_it_is_about(name: str, text: str, said: str) -> None:
    kind = kind_of(name, text.partition("\n")[0])

    assert about(kind, numbered(text)) == said


@pytest.mark.parametrize(
    ("line", "work"),
    [
        ("# TODO: count", "TODO: count"),
        ("    x = 1  # FIXME(me) later", "FIXME(me) later"),
        ("/* XXX why? */", "XXX why?"),
        ("// @TODO more", "TODO more"),
        ("<!-- TODO: write -->", "TODO: write"),
        ("- [ ] TODO: ship", "TODO: ship"),
        ("TODO", "TODO"),
        ("-- HACK - for now", "HACK - for now"),
        ("the word TODO in a text", None),
        ('pattern = "TODO|FIXME"', None),
        ("# TODOS are listed", None),
        ("todo: lower", None),
    ],
)
def test_open_work_is_found_where_somebody_says_it(line: str, work: str | None) -> None:
    assert open_work_in(line) == work


@pytest.mark.parametrize(
    ("path", "first", "kind"),
    [
        ("a/b.py", "", "Python"),
        ("Dockerfile.dev", "FROM x", "Dockerfile"),
        ("LICENSE.md", "", "Licence"),
        ("x.conf.in", "", "INI"),
        (".gitignore", "", "Ignore rules"),
        ("run", "#!/usr/bin/env -S python3 -u", "Python"),
        ("run", "#!/bin/bash -e", "Shell"),
        ("feed", '<?xml version="1.0"?>', "XML"),
        ("log", '{"a": 1}', "JSON lines"),
        ("x.py.bak", "", "Text"),
        (".py", "", "Text"),
    ],
)
def test_a_kind_is_told_by_the_name_then_by_the_first_line(
    path: str, first: str, kind: str
) -> None:
    assert kind_of(path, first) == kind


@given(st.sampled_from(KINDS), st.lists(st.text(), max_size=20))
def test_no_text_breaks_out_of_its_list(kind: str, texts: list[str]) -> None:
    for line in outline(kind, list(enumerate(texts, start=1))):
        assert line.lstrip().startswith("- ")
        assert line.isprintable()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["a " * 5000, "(" * 9000, "*" * 9000, "x.x " * 3000])
def test_long_lines_take_no_long_time(kind: str, line: str) -> None:
    assert isinstance(outline(kind, [(1, line)] * 50), list)
