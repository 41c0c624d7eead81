import re
from pathlib import Path

import pytest
import tomli
from msgspec import Struct
from msgspec.structs import asdict, fields

from pod.command_reference import commands_page
from pod.manifest import Manifest
from pod.manifest_errors import arrays_of, tables_of
from pod.manifest_reference import example_manifest, manifest_page
from pod.merge import merge

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "manifest.example.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("manifest.example.toml", example_manifest()),
        ("docs/manifest.md", manifest_page()),
        ("docs/commands.md", commands_page()),
    ],
)
def test_what_is_made_from_the_code_is_current(name: str, made: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")

    assert text == made, "run python scripts/make_docs.py"


def test_the_example_says_the_defaults() -> None:
    merged = merge(EXAMPLE.encode(), "manifest.example.toml", [])

    assert merged.manifest == Manifest()


def test_every_key_of_the_example_has_its_default_or_an_example_and_a_comment() -> None:
    found: dict[str, list[str]] = {}
    comment = table = ""
    for line in EXAMPLE.splitlines():
        if header := re.fullmatch(r"#?\[+(\w+)\]+", line):
            table = header[1]
            found[table] = []
            assert comment
        elif table in arrays_of(Manifest):
            if key := re.match(r"#(\w+) = ", line):
                assert comment, key[1]
                found[table].append(key[1])
        elif key := re.match(r"(#?)(\w+) = ", line):
            default = getattr(getattr(Manifest(), table), key[2])
            assert comment, key[2]
            assert (key[1] == "#") == (default is None), key[2]
            found[table].append(key[2])
        comment = line.removeprefix("# ") if line.startswith("# ") else ""

    assert found == {
        name: list(struct.__struct_fields__)
        for name, struct in [
            *tables_of(Manifest).items(),
            *arrays_of(Manifest).items(),
        ]
    }


def test_each_line_of_the_example_that_is_commented_out_is_valid_and_no_default() -> (
    None
):
    uncommented = re.sub(r"(?m)^#(\w+ = |\[\[)", r"\1", EXAMPLE)

    manifest = merge(uncommented.encode(), "manifest.example.toml", []).manifest

    for name, struct in tables_of(Manifest).items():
        table = asdict(getattr(manifest, name))
        for field in fields(struct):
            assert (table[field.name] == field.default) == (field.default is not None)
    for name in arrays_of(Manifest):
        assert len(getattr(manifest, name)) == 1


def test_the_example_is_plain_toml() -> None:
    assert list(tomli.loads(EXAMPLE)) == list(tables_of(Manifest))


def test_the_page_has_a_row_for_every_key() -> None:
    rows = re.findall(
        r"(?m)^## \[+([\w.]+)\]+|^\| `(\w+)` \| .+ \| .* \| .+\. \|$", manifest_page()
    )

    assert [table or key for table, key in rows] == [
        word
        for name, struct in all_tables().items()
        for word in (name, *struct.__struct_fields__)
    ]


def all_tables() -> dict[str, type[Struct]]:
    """Return every table by the name in its header, in the order of the page."""
    tables: dict[str, type[Struct]] = {}
    for name, struct in tables_of(Manifest).items():
        tables[name] = struct
        for key, items in arrays_of(struct).items():
            tables[f"{name}.{key}"] = items
    return tables | dict(arrays_of(Manifest))
