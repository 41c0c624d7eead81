"""From the manifest's hooks to hooks that can be asked."""

from pathlib import Path

import pytest

from pod.errors import SetupError
from pod.hooks.answers import PreToolCallAnswer
from pod.hooks.hooks import Hooks
from pod.hooks.open_hooks import find_program, hook_environment, open_hooks
from pod.load_manifest import Loaded, load
from tests.pod.hooks.samples import PRE_TOOL_CALL, RUN_ENDED


def loaded(folder: Path, text: str) -> Loaded:
    (folder / "pod.toml").write_text(text, encoding="utf-8")
    return load(folder / "pod.toml", [], folder)


async def test_hooks_of_the_manifest_are_asked_with_what_it_says_of_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "h.py").write_text(
        "def guard(call):\n    return {'deny': True, 'message': call.name}\n",
        encoding="utf-8",
    )
    text = """
[[hooks]]
event = "pre_tool_call"
python = "h.py:guard"
tools = ["bash"]
timeout = 5

[[hooks]]
event = "post_tool_call"
command = ["true", "a b"]
on_failure = "block"
"""

    hooks = open_hooks(loaded(tmp_path, text), tmp_path)

    assert [
        (hook.event, hook.name, hook.timeout, hook.on_failure, hook.tools)
        for hook in hooks
    ] == [
        ("pre_tool_call", "h.py:guard", 5, None, ("bash",)),
        ("post_tool_call", "true 'a b'", 60, "block", ()),
    ]
    answer = await Hooks(hooks).pre_tool_call(PRE_TOOL_CALL)
    assert answer == PreToolCallAnswer(deny=True, message="bash")


async def test_a_command_runs_in_the_manifests_folder_and_is_told_the_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-1")
    monkeypatch.setenv("OTHER", "o")
    pods, work = tmp_path / "pods", tmp_path / "work"
    pods.mkdir()
    script = pods / "tell"
    script.write_text('#!/bin/sh\necho "$PWD $POD_CWD $MY_KEY $OTHER"\n')
    script.chmod(0o700)
    text = """
model.api_key_env = "MY_KEY"
[[hooks]]
event = "run_end"
command = ["./tell"]
"""

    (hook,) = open_hooks(loaded(pods, text), work)

    assert await hook.ask(RUN_ENDED) == f"{pods} {work}  o\n".encode()


def test_the_environment_is_the_pods_own_without_what_signs_its_requests() -> None:
    source = {
        "PATH": "/bin",
        "KEY": "1",
        "ANTHROPIC_API_KEY": "2",
        "ANTHROPIC_AUTH_TOKEN": "3",
        "ANTHROPIC_IDENTITY_TOKEN": "4",
        "ANTHROPIC_BASE_URL": "http://localhost",
        "OTHER_API_KEY": "mine",
    }

    assert hook_environment(source, key="KEY", cwd=Path("/work")) == {
        "PATH": "/bin",
        "ANTHROPIC_BASE_URL": "http://localhost",
        "OTHER_API_KEY": "mine",
        "POD_CWD": "/work",
    }


def test_a_program_with_a_slash_is_beside_the_manifest_another_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = loaded(tmp_path, "")
    (tmp_path / "tool").write_text("")
    (tmp_path / "tool").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    monkeypatch.setenv("HOME", "/home/u")

    assert find_program("tool", here) == tmp_path / "tool"
    assert find_program("./bin/tool", here) == tmp_path / "bin/tool"
    assert find_program("/bin/tool", here) == Path("/bin/tool")
    assert find_program("~/tool", here) == Path("/home/u/tool")
    assert find_program("no-such-program", here) is None


def test_a_function_that_cannot_be_had_is_told_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "h.py").write_text("def guard(call): ...\n", encoding="utf-8")
    text = "[[hooks]]\nevent = 'run_end'\npython = 'h.py:gard'\n"

    with pytest.raises(SetupError) as caught:
        open_hooks(loaded(tmp_path, text), tmp_path)

    assert str(caught.value) == (
        "[[hooks]] python: h.py: there is no function gard; did you mean guard?"
    )


def test_a_long_command_has_a_name_of_one_line(tmp_path: Path) -> None:
    script = "\\n".join(["true"] * 100)
    text = f"[[hooks]]\nevent = 'run_end'\ncommand = ['sh', '-c', \"{script}\"]\n"

    (hook,) = open_hooks(loaded(tmp_path, text), tmp_path)

    assert hook.name.startswith("sh -c 'true")
    assert len(hook.name) <= 80
    assert "\n" not in hook.name
