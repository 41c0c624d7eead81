"""A Pod runs no program and imports no module out of the folder it works in.

What runs in its sandbox because the model asked for it is another matter.
"""

import os
from pathlib import Path

import pytest

from tests.command import Done, pod
from tests.tools.sandbox.tiers import need
from tools.sandbox.policy import Mode, Tier
from worker.loopback.server import serve
from worker.policy import Script, call, say

MARK = "was-run"
MODULES = (
    *("sitecustomize.py", "usercustomize.py", "json.py", "trio.py", "msgspec.py"),
    *("anthropic.py", "tools/__init__.py", "tools/bash.py", "tools/search_child.py"),
    *(
        "pod/__init__.py",
        "pod/__main__.py",
        "worker/__init__.py",
        "prompts/__init__.py",
    ),
    *("resource.py", "encodings/__init__.py", "tests/__init__.py"),
)
PROGRAMS = (
    *("rg", "git", "sh", "bash", "bwrap", "python", "python3", "node", "env", "true"),
    *("uname", "lsb_release", "ldconfig", "gcc", "cc", "ld", "objdump", "file", "ps"),
    *("setpriv", "unshare", "systemd-run", "apt-get", "locale", "tty", "less", "mount"),
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Make a workspace in which everything leaves a mark when it is run."""
    folder = tmp_path / "work"
    mark = tmp_path / MARK
    python = f'open({str(mark)!r}, "a").write(__file__)\n'
    shell = f'#!/bin/bash\necho "$0" >> {mark}\n'
    for name in MODULES:
        _write(folder / name, python)
    for name in PROGRAMS:
        for place in (folder, folder / "bin"):
            _write(place / name, shell).chmod(0o755)
    _write(folder / "evil.pth", f"import sys; {python}")
    _write(folder / "monitor", shell).chmod(0o755)
    _write(folder / ".git/HEAD", "ref: refs/heads/main\n")
    _write(
        folder / ".git/config",
        f"[core]\n\tfsmonitor = {folder}/monitor\n\thooksPath = {folder}/bin\n"
        f"\tsshCommand = {folder}/monitor\n\tpager = {folder}/monitor\n",
    )
    _write(folder / ".git/hooks/post-checkout", shell).chmod(0o755)
    (folder / ".git/objects").mkdir()
    (folder / ".git/refs").mkdir()
    _write(folder / "file.txt", "some text\n" * 50)
    _write(folder / "once.txt", "x")
    return folder


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


EDIT = '{"path": "once.txt", "edits": [{"old_text": "x", "new_text": "y"}]}'
EVERY_TOOL = Script(
    [
        call(
            ("c1", "grep", '{"pattern": "text"}'),
            ("c2", "glob", '{"pattern": "**/*.txt"}'),
            ("c3", "read_file", '{"path": "file.txt"}'),
            ("c4", "edit_file", EDIT),
            ("c5", "write_file", '{"path": "new", "content": "x"}'),
            ("c6", "bash", '{"command": "true"}'),
        ),
        say("done"),
    ]
)


async def run(work: Path, *settings: str) -> Done:
    path = os.environ["PATH"]
    async with serve(EVERY_TOOL) as server:
        return await pod(
            "run",
            "go",
            "-c",
            f"model.base_url={server.base_url}",
            "-c",
            f"session.dir={work.parent}/sessions",
            *settings,
            cwd=work,
            env={
                "ANTHROPIC_API_KEY": "loopback",
                "PATH": f".::bin:{work}/bin:{work}:{path}",
            },
        )


@pytest.mark.parametrize(
    ("mode", "tier"), [("auto", "bwrap"), ("landlock", "landlock"), ("off", "off")]
)
async def test_nothing_of_the_workspace_is_run(
    work: Path, mode: Mode, tier: Tier
) -> None:
    need(tier)
    done = await run(work, "-c", f"sandbox.mode={mode}")

    assert done.code == 0, done.err
    assert "6 tool calls (0 errors)" in done.err
    assert not (work.parent / MARK).exists(), (work.parent / MARK).read_text()
