import tomli
from hypothesis import given, strategies as st

from pod.toml_text import printable, quoted, toml_key, toml_value

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    texts | st.booleans() | st.integers() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(texts, values)
def test_keys_and_values_are_toml_on_one_line(key: str, value: object) -> None:
    line = f"{toml_key(key)} = {toml_value(value)}"

    assert tomli.loads(line) == {key: value}
    assert line.isprintable()


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    assert quoted('\x1b[31m"\\\n\x9b') == r'"\u001b[31m\"\\\n\u009b"'
    assert printable("a\u2028b\udcff\U000e0001") == r"a\u2028b\udcff\U000e0001"


def test_long_numbers_are_grouped_and_huge_ones_do_not_crash() -> None:
    assert [toml_value(n) for n in (1024, 200_000, -10_000)] == [
        "1024",
        "200_000",
        "-10_000",
    ]
    assert toml_value(16**5000) == "0x1" + "0" * 5000


def test_only_what_toml_allows_bare_is_a_bare_key() -> None:
    assert [toml_key(key) for key in ("a-b_1", "", "a.b", "ü", "-")] == [
        "a-b_1",
        '""',
        '"a.b"',
        '"ü"',
        "-",
    ]
