from msgspec import Struct

from pod import exits
from pod.field_docs import field_docs, table_doc
from pod.manifest import Manifest
from pod.manifest_errors import tables_of


class Base(Struct):
    """A base."""

    first: int = 0
    """The first,
    on two lines.
    """


class Derived(Base):
    """Derived.

    With
    more.
    """

    undocumented: int = 0
    second: str = ""
    """The second."""


def test_docstrings_are_one_line_each_and_inherited() -> None:
    assert field_docs(Derived) == {
        "first": "The first, on two lines.",
        "second": "The second.",
    }
    assert table_doc(Derived) == "Derived. With more."


def test_a_struct_without_source_has_no_docs() -> None:
    made = type("Made", (Struct,), {"__module__": exits.__name__})

    assert field_docs(made) == {}


def test_every_table_and_key_of_the_manifest_says_what_it_is() -> None:
    assert table_doc(Manifest)
    for table in tables_of(Manifest).values():
        assert table_doc(table)
        assert set(field_docs(table)) == set(table.__struct_fields__)
