"""The process of a search opens what it searches, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tools.landlock import abi
from tools.search import Glob

ROOT = Path(__file__).resolve().parents[2]

# What the child does first, then an open that no link could have talked it into.
TRY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import msgspec
from tools import search_child
from tools.search import Request
search_child._confine(msgspec.json.decode(sys.argv[2], type=Request))
for path in sys.argv[3:]:
    try:
        os.close(os.open(path, os.O_RDONLY))
        print("open")
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.skipif(
    abi() == 0 and bool(os.environ.get("POD_TESTS_WITHOUT_LANDLOCK")),
    reason="no Landlock here, and POD_TESTS_WITHOUT_LANDLOCK says so",
)
def test_it_can_open_nothing_outside(tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "in").write_text("x")
    (folder / "link").symlink_to(tmp_path / "out")
    (tmp_path / "out").write_text("secret")
    start = os.open(folder, os.O_RDONLY)
    request = msgspec.json.encode(Glob(start, (), "*", 9)).decode()
    paths = [f"{folder}/in", f"{folder}/link", f"{tmp_path}/out", "/proc/1/environ"]

    done = subprocess.run(
        [sys.executable, "-I", "-c", TRY, str(ROOT), request, *paths],
        pass_fds=[start],
        capture_output=True,
        text=True,
        check=True,
    )

    os.close(start)
    assert done.stdout.splitlines() == ["open", *["Permission denied"] * 3]
