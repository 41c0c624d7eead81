import os
import subprocess
import sys
from pathlib import Path

import pytest

from pod.load_manifest import MOST_BYTES, Loaded, load, resolved, system_text
from pod.manifest import Manifest
from pod.manifest_errors import ManifestError
from pod.merge import Source
from pod.toml_positions import Position
from tests.corpus import corpus


def refusal(path: Path | None, cwd: Path, *overrides: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load(path, overrides, cwd)
    return caught.value.lines


def test_without_a_file_the_defaults_count(tmp_path: Path) -> None:
    loaded = load(None, ["model.id=x"], tmp_path)

    assert (loaded.manifest.model.id, loaded.folder, loaded.path) == (
        "x",
        tmp_path,
        None,
    )


def test_pod_toml_of_the_working_folder_is_read_unasked(tmp_path: Path) -> None:
    file = tmp_path / "pod.toml"
    file.write_text("[pod]\nname = 'here'\n")

    loaded = load(None, [], tmp_path)

    assert loaded.manifest.pod.name == "here"
    assert loaded.sources["pod.name"] == Source("pod.toml", Position(2, 1))
    assert (loaded.folder, loaded.path) == (tmp_path, file)


def test_a_named_file_is_relative_to_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "a.toml").write_text("")

    loaded = load(Path("pods/a.toml"), [], tmp_path)

    assert loaded.manifest == Manifest()
    assert loaded.path == tmp_path / "pods" / "a.toml"
    assert loaded.beside("prompt.md") == tmp_path / "pods" / "prompt.md"


def test_messages_name_the_file_as_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[modle]")

    assert refusal(Path("./a.toml"), tmp_path) == [
        "a.toml:1:2: [modle]: unknown table; did you mean [model]?"
    ]


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").symlink_to("pod.toml")
    (tmp_path / "big.toml").write_bytes(b"#" * (MOST_BYTES + 1))

    assert refusal(Path("no.toml"), tmp_path) == ["no.toml: no such file"]
    assert refusal(Path(), tmp_path) == [".: a folder, not a file"]
    assert refusal(None, tmp_path)[0].startswith("pod.toml: cannot be read: ")
    assert refusal(Path("big.toml"), tmp_path) == [
        "big.toml: more than 1,000,000 bytes"
    ]
    assert refusal(Path("/dev/zero"), tmp_path) == [
        "/dev/zero: more than 1,000,000 bytes"
    ]
    assert refusal(Path("pod.toml/x"), tmp_path)[0].startswith("pod.toml/x: ")


def test_a_pod_toml_that_leads_nowhere_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").symlink_to("gone.toml")

    assert refusal(None, tmp_path) == ["pod.toml: no such file"]


def test_a_name_that_is_no_text_is_shown_escaped(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff\n.toml")
    (tmp_path / name).write_text("x = 1")

    [line] = refusal(Path(name), tmp_path)

    assert line.startswith(r"a\udcff\n.toml:1:1: x: unknown key")


def test_tilde_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert resolved("~/a", Path("/b")) == tmp_path / "a"
    assert resolved("a/~", Path("/b")) == Path("/b/a/~")
    assert resolved("~no-such-user/a", Path("/b")) == Path("/b/~no-such-user/a")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "22-bom.toml",
            [
                "1:1: name: unknown key, and outside of any table; did you mean [pod] name?",
                "4:1: [model] context: unknown key; did you mean context_window?",
            ],
        ),
        (
            "22-crlf.toml",
            [
                "1:1: name: unknown key, and outside of any table; did you mean [pod] name?",
                "4:1: [model] context: unknown key; did you mean context_window?",
            ],
        ),
        (
            "22-cr-only.toml",
            [
                "1:14: a carriage return alone ends no line: save with LF or CRLF line ends"
            ],
        ),
        ("22-utf16.toml", ["1:1: the file is UTF-16: save it as UTF-8"]),
        (
            "22-bom-SKILL.md",
            ["1:4: not TOML: Expected '=' after a key in a key/value pair"],
        ),
        ("22-bom-settings.json", ["1:1: not TOML: Invalid statement"]),
    ],
)
def test_files_of_the_corpus_are_read_or_refused_with_clear_lines(
    name: str, lines: list[str]
) -> None:
    file = corpus(f"cases/inputs/{name}")

    assert refusal(Path(name), file.parent) == [f"{name}:{line}" for line in lines]


def test_a_mark_and_crlf_of_the_corpus_do_no_harm(tmp_path: Path) -> None:
    """The corpus' files with the keys that this manifest has."""
    for name in ("22-bom.toml", "22-crlf.toml"):
        raw = corpus(f"cases/inputs/{name}").read_bytes()
        raw = raw.replace(b"name =", b"pod.name =").replace(b"context", b"max_tokens")
        (tmp_path / name).write_bytes(raw)

        manifest = load(Path(name), [], tmp_path).manifest

        assert (manifest.pod.name, manifest.model.id) == ("demo", "m")
        assert manifest.model.max_tokens == 200_000


def prompt_of(folder: Path, *overrides: str) -> str:
    return system_text(load(None, overrides, folder), "Built in.")


def test_the_system_prompt_and_what_is_added_to_it(tmp_path: Path) -> None:
    assert prompt_of(tmp_path) == "Built in."
    assert prompt_of(tmp_path, "prompt.append=More.") == "Built in.\n\nMore."
    assert prompt_of(tmp_path, "prompt.system=Own.", "prompt.append=More.") == (
        "Own.\n\nMore."
    )


def test_the_prompt_file_is_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "pod.toml").write_text("prompt.system_file = 'p.md'")
    (tmp_path / "a" / "p.md").write_bytes(b"\xef\xbb\xbfOne\r\ntwo\r\n\r\n")

    loaded = load(Path("a/pod.toml"), [], tmp_path)

    assert system_text(loaded, "Built in.") == "One\ntwo"


def test_a_prompt_file_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "pod.toml").write_text("prompt.system_file = 'p.md'")
    file = tmp_path / "p.md"

    def reason(loaded: Loaded) -> str:
        with pytest.raises(ManifestError) as caught:
            system_text(loaded, "Built in.")
        [line] = caught.value.lines
        start = f"pod.toml:1:8: [prompt] system_file: {file}"
        assert line.startswith(start)
        return line.removeprefix(start)

    loaded = load(None, [], tmp_path)
    assert reason(loaded) == ": no such file"
    file.write_text(" \n")
    assert reason(loaded) == ": a blank file; write a prompt or name no file"
    file.write_text("x", encoding="utf-16")
    assert reason(loaded) == ":1:1: the file is UTF-16: save it as UTF-8"
    file.write_bytes(b"a\nb\xe9")
    assert reason(loaded) == ":2:2: byte 0xe9 is no UTF-8: save the file as UTF-8"


HEAVY = {"anthropic", "pydantic", "tokenizers", "tiktoken", "rich", "trio", "httpx2"}


def test_nothing_heavy_is_imported_for_a_manifest() -> None:
    program = (
        "import sys; sys.path.insert(0, '.')\n"
        "import pod.schema, pod.check_facts, pod.render_manifest, pod.load_manifest\n"
        "import pod.manifest_reference\n"
        "pod.schema.manifest_schema()\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )

    assert HEAVY & set(ran.stdout.split()) == set()
