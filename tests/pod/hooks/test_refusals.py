"""Hooks that a Pod does not start with, and why."""

from pathlib import Path

import pytest

from pod.check import check, finding_line
from pod.check_facts import gather
from pod.load_manifest import load

HEAD = "[[hooks]]\nevent = 'pre_tool_call'\n"


class World:
    """A folder with a manifest in pods/, and work/, which the model may write in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.pods, self.work = self.folder / "pods", self.folder / "work"
        self.pods.mkdir()
        self.work.mkdir()
        self.manifest = self.pods / "pod.toml"

    def program(self, path: Path, mode: int = 0o700) -> Path:
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(mode)
        return path

    def errors(self, hooks: str) -> list[str]:
        """Return why the manifest is refused; lines begin behind its name."""
        self.manifest.write_text(hooks, encoding="utf-8")
        loaded = load(self.manifest, [], self.work)
        facts = gather(
            loaded,
            cwd=self.work,
            state_dir=self.folder / "state",
            window=None,
            unpriced=(),
        )
        lines = [
            finding_line(finding, loaded.sources)
            for finding in check(loaded.manifest, facts)
            if finding.level == "error"
        ]
        prefix = f"{self.manifest}:"
        assert all(line.startswith(prefix) for line in lines), lines
        return [
            line.removeprefix(prefix).replace(str(self.folder), "") for line in lines
        ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


MOVE = (
    'keep it in another folder, or let write_roots name folders beside it, ["src"] say'
)


def test_what_lies_beside_the_manifest_or_on_path_is_fine(world: World) -> None:
    world.program(world.pods / "guard")
    (world.pods / "h.py").write_text("def f(call): ...\n", encoding="utf-8")
    (world.pods / "h.txt").write_text("", encoding="utf-8")

    assert (
        world.errors(
            f"{HEAD}command = ['./guard', 'h.txt', 'no file']\n"
            f"{HEAD}command = ['sh', '-c', 'true']\n"
            f"{HEAD}python = 'h.py:f'\n"
            f"{HEAD}command = ['sh']\ntools = ['bash', 'mark_read_required']\n"
            f"on_failure = 'block'\n"
            "[[hooks]]\nevent = 'run_end'\ncommand = ['sh']\non_failure = 'continue'\n"
        )
        == []
    )


@pytest.mark.parametrize(
    ("hook", "line"),
    [
        (HEAD, "2:1: [[hooks]] event: name a command, or a function with python"),
        (
            f"{HEAD}command = ['sh']\npython = 'h.py:f'",
            "4:1: [[hooks]] python: set together with command: keep one of them",
        ),
        (
            f"{HEAD}command = ['sh']\non_failure = 'continue'",
            (
                "4:1: [[hooks]] on_failure: a call that its pre_tool_call hook has not"
                " judged is never run; for a hook that only takes notes, use"
                " post_tool_call"
            ),
        ),
        (
            "[[hooks]]\nevent = 'session_tree'\ncommand = ['sh']\non_failure = 'block'",
            (
                "4:1: [[hooks]] on_failure: at session_tree there is nothing that could"
                " be stopped"
            ),
        ),
        (
            "[[hooks]]\nevent = 'run_end'\ncommand = ['sh']\ntools = ['bash']",
            (
                "4:1: [[hooks]] tools: run_end is about no tool; only pre_tool_call and"
                " post_tool_call are"
            ),
        ),
        (
            f"{HEAD}command = ['sh']\ntools = ['bsh']",
            '4:1: [[hooks]] tools: there is no tool "bsh"; did you mean "bash"?',
        ),
        (
            f"{HEAD}command = ['no-such-program-7']",
            (
                '3:1: [[hooks]] command: "no-such-program-7" does not exist: a file is'
                " needed"
            ),
        ),
        (
            f"{HEAD}command = ['./guard']",
            (
                '3:1: [[hooks]] command: "./guard" ("/pods/guard") does not exist: a'
                " file is needed"
            ),
        ),
        (
            f"{HEAD}command = ['./flat']",
            (
                '3:1: [[hooks]] command: "./flat" ("/pods/flat") is not executable:'
                " chmod +x it"
            ),
        ),
        (
            f"{HEAD}python = 'g.py:f'",
            (
                '3:1: [[hooks]] python: "g.py" ("/pods/g.py") does not exist: a file is'
                " needed"
            ),
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    hook: str, line: str, world: World
) -> None:
    world.program(world.pods / "flat", 0o600)
    (world.pods / "h.py").write_text("", encoding="utf-8")

    assert world.errors(hook) == [line]


def test_a_program_that_the_model_could_write_is_refused(world: World) -> None:
    world.program(world.work / "guard")

    assert world.errors(f"{HEAD}command = ['../work/guard']") == [
        (
            '3:1: [[hooks]] command: "../work/guard" ("/work/guard") lies in the write'
            f' root "." ("/work"): the model could change what the Pod then runs; {MOVE}'
        )
    ]


def test_a_script_behind_its_interpreter_is_looked_at_too(world: World) -> None:
    (world.work / "guard.py").write_text("", encoding="utf-8")

    assert world.errors(f"{HEAD}command = ['sh', '-x', '../work/guard.py']") == [
        (
            '3:1: [[hooks]] command: "../work/guard.py" ("/work/guard.py") lies in the'
            ' write root "." ("/work"): the model could change what the Pod then runs;'
            f" {MOVE}"
        )
    ]


def test_a_function_that_the_model_could_write_is_refused(world: World) -> None:
    (world.work / "h.py").write_text("", encoding="utf-8")

    assert world.errors(f"{HEAD}python = '../work/h.py:f'") == [
        (
            '3:1: [[hooks]] python: "../work/h.py" ("/work/h.py") lies in the write root'
            f' "." ("/work"): the model could change what the Pod then runs; {MOVE}'
        )
    ]


@pytest.mark.parametrize("word", ["./link", "../work/link", "./folder/guard"])
def test_a_symlink_in_a_write_root_is_refused_wherever_it_leads(
    word: str, world: World
) -> None:
    safe = world.folder / "safe"
    safe.mkdir()
    world.program(safe / "guard")
    (world.work / "link").symlink_to("../safe/guard")
    (world.work / "folder").symlink_to("../safe")
    (world.pods / "link").symlink_to("../work/link")
    (world.pods / "folder").symlink_to("../work/folder")

    (line,) = world.errors(f"{HEAD}command = ['{word}']")

    assert "lies in the write root" in line


def test_a_loop_of_symlinks_is_no_file(world: World) -> None:
    (world.pods / "a").symlink_to("b")
    (world.pods / "b").symlink_to("a")

    (line,) = world.errors(f"{HEAD}command = ['./a']")

    assert line.endswith("does not exist: a file is needed")


def test_a_manifest_with_hooks_is_refused_where_the_model_could_write_it(
    world: World,
) -> None:
    world.manifest = world.work / "pod.toml"

    assert world.errors(f"{HEAD}command = ['sh']") == [
        (
            "2:1: [[hooks]] event: a manifest with hooks may not lie where the model can"
            f' write, in "." ("/work"): {MOVE}'
        )
    ]


def test_a_way_over_a_write_root_is_fine_and_one_through_a_folder_in_it_is_not(
    world: World,
) -> None:
    world.program(world.pods / "guard")
    (world.work / "sub").mkdir()

    over = world.errors(f"{HEAD}command = ['../work/../pods/guard']")
    (through,) = world.errors(f"{HEAD}command = ['../work/sub/../../pods/guard']")

    assert over == []
    assert "lies in the write root" in through


def test_a_manifest_behind_a_symlink_that_the_model_could_write_is_refused(
    world: World,
) -> None:
    (world.pods / "pod.toml").touch()
    world.manifest = world.work / "pod.toml"
    world.manifest.symlink_to("../pods/pod.toml")

    (line,) = world.errors(f"{HEAD}command = ['sh']")

    assert "a manifest with hooks may not lie where the model can write" in line


def test_a_manifest_above_the_write_roots_is_fine(world: World) -> None:
    world.manifest = world.work / "pod.toml"
    (world.work / "src").mkdir()

    roots = "[permissions]\nwrite_roots = ['src']\n"
    assert world.errors(f"{roots}{HEAD}command = ['sh']") == []
