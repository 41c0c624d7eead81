import pytest
from hypothesis import given, strategies as st

from pod.manifest import Manifest
from pod.manifest_errors import tables_of
from pod.overrides import Override, OverrideError, parse_override, place

TABLES = tables_of(Manifest)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ('model.id="x"', ("model", "id"), "x"),
        ("model.id=claude-x", ("model", "id"), "claude-x"),
        (" model . \"id\" = 'x' ", ("model", "id"), "x"),
        ("model.id=a=b", ("model", "id"), "a=b"),
        ("prompt.append=[short] answers, please", ("prompt", "append"), None),
        ("prompt.append=", ("prompt", "append"), ""),
        ("model.thinking=off", ("model", "thinking"), "off"),
        ("model.thinking=4096", ("model", "thinking"), 4096),
        ("limits.timeout=1_000.5", ("limits", "timeout"), 1000.5),
        ("cache.enabled=false", ("cache", "enabled"), False),
        ('tools.builtin=["bash"]', ("tools", "builtin"), ["bash"]),
        ('prompt.system="""a\nb"""', ("prompt", "system"), "a\nb"),
        ("nosuch.key=bare", ("nosuch", "key"), "bare"),
        ("name=x", ("name",), "x"),
    ],
)
def test_what_an_override_sets(text: str, path: tuple[str, ...], value: object) -> None:
    if value is None:
        value = text.partition("=")[2]

    assert parse_override(text, TABLES) == Override(text, path, value)


def test_the_document_of_an_override_is_nested() -> None:
    assert parse_override("a.b.c=1", TABLES).document == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model.id", 'write it as table.key=value, like -c model.id="x"'),
        ("", 'write it as table.key=value, like -c model.id="x"'),
        ("=1", 'write it as table.key=value, like -c model.id="x"'),
        ("model id=1", 'write it as table.key=value, like -c model.id="x"'),
        (
            'model={id="x"}',
            "[model] is a table: set its keys one by one, like -c model.provider=…",
        ),
        (
            "limits.timeout=ten",
            "[limits] timeout: ten is no TOML value; it takes seconds above 0, at most a year",
        ),
        ('model.id="x', "not TOML: Unterminated string"),
        (r'"\q".id=1', r"no TOML key: not TOML: Unescaped '\' in a string"),
        (
            "cache.enabled=true\nname='x'",
            "sets more than one key: give each its own -c",
        ),
        ("model.id=\udcff", "not UTF-8"),
    ],
)
def test_what_is_no_override_says_why(text: str, reason: str) -> None:
    with pytest.raises(OverrideError) as caught:
        parse_override(text, TABLES)

    assert str(caught.value) == reason


def test_messages_repeat_no_api_key_and_no_long_text() -> None:
    assert place("model.api_key=sk-ant-secret_1") == "-c model.api_key=sk-…"
    assert place("x" * 99) == f"-c {'x' * 80}…"


@given(st.text(alphabet="model.id=\"'[]{}\\\n 1#\udcff\u2028", max_size=30))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        said = parse_override(text, TABLES).place
    except OverrideError as error:
        said = str(error)

    assert len(said.splitlines()) == 1
