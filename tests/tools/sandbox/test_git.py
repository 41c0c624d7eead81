"""git works in a sandbox, and is safe to use outside of it afterwards."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.processes import names_in
from tests.tools.sandbox.boxes import Boxed, boxed
from tests.tools.sandbox.tiers import need
from tools.sandbox.git import identity, pins_of
from tools.sandbox.policy import Pins


def git(folder: Path, *arguments: str) -> str:
    """Run git on this side of the sandbox, with settings of the test's own."""
    done = subprocess.run(
        [
            *("git", "-c", "user.name=n", "-c", "user.email=e"),
            *("-c", "protocol.file.allow=always", *arguments),
        ],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main", ".")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text(
        '[user]\n\tname = "Ada \\"L\\" B"\n\temail = ada@example.org\n'
        "[credential]\n\thelper = store\n"
    )
    return folder


@pytest.fixture
def box(repository: Path, home: Path) -> Iterator[Boxed]:
    need("bwrap")
    with boxed("bwrap", repository, home=home) as opened:
        yield opened


async def test_commits_can_be_made_in_the_users_name(
    box: Boxed, repository: Path
) -> None:
    ended = await box.run(
        "echo two >> file && git add file && git commit -qm second && git checkout -qb side"
        " && git commit -q --allow-empty -m third && git rebase -q main && git stash list"
        " && git branch -d main && git gc -q && git status --short"
    )

    assert (ended.returncode, ended.notes) == (0, ()), box.said
    log = git(repository, "log", "--format=%s %an %ae")
    assert log.splitlines() == [
        'third Ada "L" B ada@example.org',
        'second Ada "L" B ada@example.org',
        "first n e",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "echo evil > .git/hooks/pre-commit",
        "rm .git/config",
        "mv .git/config .git/config2",
        "echo evil >> .git/config",
        "git config core.hooksPath evil",
        "git config --file .git/config core.fsmonitor evil",
        "rm -rf .git/hooks && false",
        "mv .git/hooks .git/hooks2",
        "mv .git .git2",
        "rm -rf .git",
        "mount -o remount,rw .git/hooks",
        "umount .git/hooks",
    ],
)
async def test_hooks_and_settings_stay_as_they_are(
    command: str, box: Boxed, repository: Path
) -> None:
    before = (repository / ".git/config").read_text()
    hooks = names_in(repository / ".git/hooks")

    ended = await box.run(command)

    assert ended.returncode != 0
    assert (repository / ".git/config").read_text() == before
    assert names_in(repository / ".git/hooks") == hooks


async def test_nothing_is_left_in_the_workspace(box: Boxed, repository: Path) -> None:
    before = names_in(repository), names_in(repository / ".git")

    await box.run("git status && git log && ls -la")

    assert (names_in(repository), names_in(repository / ".git")) == before


async def test_names_that_git_would_obey_are_moved_away(
    box: Boxed, repository: Path
) -> None:
    ended = await box.run("mkdir evil && echo ../evil > .git/commondir")

    assert not (repository / ".git/commondir").exists()
    assert (repository / ".git/commondir.refused-1").read_text() == "../evil\n"
    (note,) = ended.notes
    assert "commondir was moved to commondir.refused-" in note
    git(repository, "status")


async def test_a_new_repository_can_be_made(tmp_path: Path) -> None:
    need("bwrap")
    with boxed("bwrap", tmp_path) as opened:
        made = await opened.run("git init -q . && git config user.name me")
        held = await opened.run("git config user.name you")

    assert (made.returncode, held.returncode != 0) == (0, True)
    assert "me" in (tmp_path / ".git/config").read_text()


async def test_a_worktree_can_be_committed_to(repository: Path, home: Path) -> None:
    need("bwrap")
    tree = repository.parent / "tree"
    git(repository, "worktree", "add", "-q", str(tree))
    with boxed("bwrap", tree, home=home) as opened:
        ended = await opened.run(
            "echo x > new && git add new && git commit -qm in-tree"
        )
        assert ended.returncode == 0, opened.said
        hook = f"{repository}/.git/hooks/pre-commit"
        refused = await opened.run(f"echo evil > {hook}")

    assert refused.returncode != 0
    assert git(tree, "log", "-1", "--format=%s") == "in-tree\n"
    assert not (repository / ".git/hooks/pre-commit").exists()


async def test_a_submodule_can_be_committed_to(repository: Path, home: Path) -> None:
    need("bwrap")
    outer = repository.parent / "outer"
    outer.mkdir()
    git(outer, "init", "-q", ".")
    git(outer, "submodule", "--quiet", "add", str(repository), "sub")
    with boxed("bwrap", outer / "sub", home=home) as opened:
        ended = await opened.run("git commit -q --allow-empty -m in-sub")
        assert ended.returncode == 0, opened.said
    assert git(outer / "sub", "log", "-1", "--format=%s") == "in-sub\n"

    with boxed("bwrap", outer, home=home) as opened:
        evil = await opened.run("echo evil > .git/modules/sub/hooks/pre-commit")
        for moved in (".git/modules", ".git/modules/sub"):
            assert (await opened.run(f"mv {moved} {moved}2")).returncode != 0
    assert evil.returncode != 0


def test_a_file_that_names_somebody_elses_repository_lets_nothing_in(
    repository: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "evil"
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {repository}/.git\n")

    pins = pins_of([str(workspace)])

    assert pins == Pins(read_only=(str(workspace / ".git"),))


def test_a_link_is_no_repository(repository: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "evil"
    workspace.mkdir()
    (workspace / ".git").symlink_to(repository / ".git")

    assert pins_of([str(workspace)]) == Pins()


def test_of_the_home_only_who_commits_is_told(home: Path) -> None:
    assert identity(str(home)) == (
        '[user]\n\tname = "Ada \\"L\\" B"\n[user]\n\temail = "ada@example.org"\n'
    )
    assert identity("/nonexistent") == ""
