"""The whole manifest in effect, as TOML that says where each value comes from."""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from pod.manifest import Manifest
from pod.merge import Source
from pod.toml_text import toml_value


def render(manifest: Manifest, sources: Mapping[str, Source]) -> str:
    """Return *manifest* as TOML that loads as the same manifest.

    Every value has its source as a comment; what has no value is named in a
    comment of its own.
    """
    return "\n".join(_tables(manifest, sources))


def _tables(manifest: Manifest, sources: Mapping[str, Source]) -> Iterator[str]:
    for name, value in asdict(manifest).items():
        if isinstance(value, Struct):
            yield f"[{name}]"
            yield from _keys(value, name, sources)
        else:
            for index, table in enumerate(value):
                yield f"[[{name}]]"
                yield from _keys(table, f"{name}.{index}", sources)


def _keys(table: Struct, at: str, sources: Mapping[str, Source]) -> Iterator[str]:
    for key, value in asdict(table).items():
        if value is None:
            yield f"# unset: {key}"
        else:
            yield f"{key} = {toml_value(value)}  # {sources[f'{at}.{key}'].comment}"
    yield ""
