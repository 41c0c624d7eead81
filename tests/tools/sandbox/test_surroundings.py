"""What of the machine a command needs to see."""

import os
from pathlib import Path

import pytest

from tools.sandbox.policy import Policy, Surroundings
from tools.sandbox.probe import surroundings_here
from tools.sandbox.rules import granted
from tools.sandbox.seatbelt import profile
from tools.sandbox.surroundings import look


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    for name in (
        ".pyenv/bin",
        ".pyenv/lib",
        ".pyenv/libexec",
        ".pyenv/versions/3/bin",
        ".local/bin",
        ".local/share/keyrings",
        ".local/share/tool/bin",
        ".local/share/tool/lib",
        "bin",
        ".cargo/bin",
        ".rustup",
    ):
        (folder / name).mkdir(parents=True)
    (folder / ".local/bin/tool").symlink_to(folder / ".local/share/tool/bin/tool")
    (folder / ".local/share/tool/bin/tool").touch()
    (folder / ".cargo/credentials.toml").touch()
    return folder


def programs(home: Path, *entries: str) -> list[str]:
    path = os.pathsep.join(str(home / entry) for entry in entries)
    found = look(path, str(home), network=False).programs
    return [p.removeprefix(f"{home}/") for p in found if p.startswith(f"{home}/")]


def test_a_toolchain_is_seen_as_a_whole(home: Path) -> None:
    assert programs(home, ".pyenv/bin") == [".pyenv/bin", ".pyenv"]


def test_of_a_mixed_folder_only_what_programs_need(home: Path) -> None:
    assert programs(home, ".local/bin", "bin") == [
        ".local/bin",
        ".local/share/tool/bin",
        ".local/share/tool/lib",
        "bin",
    ]
    assert programs(home, ".cargo/bin") == [".cargo/bin", ".rustup"]


@pytest.mark.parametrize("entry", ["", ".", "../.."])
def test_the_home_itself_is_never_let_in_by_the_path(home: Path, entry: str) -> None:
    assert programs(home, entry) == []
    assert str(home) not in look(str(home / entry), str(home), network=False).programs


def test_a_relative_or_missing_entry_of_the_path_means_nothing(home: Path) -> None:
    here = look("bin:nowhere::" + str(home / "gone"), str(home), network=False)

    assert here == look("", str(home), network=False)


def test_only_root_has_secrets_to_cover(home: Path) -> None:
    around = look("", str(home), network=False)

    assert around.is_root == (os.geteuid() == 0)
    assert ("/etc/shadow" in around.secret) == around.is_root


def test_landlock_leaves_out_what_is_secret(tmp_path: Path) -> None:
    around = Surroundings(
        home=str(tmp_path), folders=("/usr", "/etc"), secret=("/etc/passwd",)
    )

    places = [path for path, _ in granted(Policy(cwd="/"), around, ())]

    assert "/etc" not in places
    assert "/etc/passwd" not in places
    assert "/etc/group" in places


def test_a_profile_for_macos_denies_first_and_allows_then() -> None:
    policy = Policy(cwd="/w", read=("/r",), write=('/w "x"',))
    around = Surroundings(home="/Users/me", folders=(), programs=("/Users/me/.pyenv",))

    lines = profile(policy, around, ("/private/tmp/x",)).splitlines()

    assert lines[:4] == [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        '(deny file-read-data (subpath "/Users/me"))',
    ]
    assert '(allow file-write* (subpath "/w \\"x\\""))' in lines
    assert '(allow file-read* (subpath "/Users/me/.pyenv"))' in lines
    assert lines[-1] == "(deny network*)"


def test_landlock_names_nothing_that_lies_in_what_is_written() -> None:
    policy = Policy(cwd="/w", read=("/w/read", "/r"), write=("/w/sub", "/w"))
    around = Surroundings(home="/", folders=(), programs=("/w/venv", "/p"))

    places = [path for path, _ in granted(policy, around, ("/own",))]

    assert [p for p in places if not p.startswith(("/proc", "/dev"))] == [
        *("/p", "/r", "/w", "/own")
    ]


def test_a_folder_on_the_path_that_commands_write_is_not_asked_what_it_needs(
    home: Path, tmp_path: Path
) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (work / "bin").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "key").write_text("hunter2")
    (work / "bin/key").symlink_to(elsewhere / "key")
    (work / "led").symlink_to(elsewhere)
    policy = Policy(cwd=str(work), write=(str(work),))

    found = surroundings_here(policy, f"{work}/bin:{work}/led", str(home)).programs

    assert found == surroundings_here(policy, "", str(home)).programs
