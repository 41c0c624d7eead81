"""The matrix of docs/security.md: every promise is tried, and every admission."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command import ROOT
from tests.recorded import inherited
from tests.tools.sandbox.attempts import BY_ROW
from tests.tools.sandbox.tiers import need
from tools import landlock
from tools.sandbox.policy import Tier

TIERS: tuple[Tier, ...] = ("bwrap", "landlock", "off")
USER = 61_234
"""An ordinary user that no machine has."""


def matrix() -> dict[str, dict[Tier, str]]:
    """Read what docs/security.md says of each attempt in each tier."""
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    _, _, behind = text.partition("<!-- matrix -->")
    table, _, _ = behind.strip().partition("\n\n")
    _, _, *lines = table.splitlines()
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row: dict(zip(TIERS, said, strict=True)) for row, *said in rows}


MATRIX = matrix()


def is_blocked(said: str, *, is_root: bool) -> bool:
    match said:
        case "blocked":
            return True
        case "possible":
            return False
        case "as root":
            return not is_root
        case "Linux 6.12":
            return landlock.abi() >= landlock.SCOPES_SINCE
        case _:
            raise AssertionError(f"the matrix says {said!r}")


@contextmanager
def lab_folder(uid: int) -> Iterator[Path]:
    """Make a folder that another user can get at, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="pod-lab-") as folder:
        Path(folder).chmod(0o755)
        if uid != os.geteuid():
            os.chown(folder, uid, uid)
        yield Path(folder)


@pytest.fixture(scope="module")
def results() -> dict[tuple[Tier, int], dict[str, bool]]:
    return {}


def results_of(
    tier: Tier, uid: int, kept: dict[tuple[Tier, int], dict[str, bool]]
) -> dict[str, bool]:
    """Make all attempts at once, the first time: each is some processes."""
    if (tier, uid) not in kept:
        with lab_folder(uid) as folder:
            done = subprocess.run(
                [
                    *(sys.executable, "-P", "-m", "tests.tools.sandbox.lab"),
                    *(tier, str(uid), str(folder)),
                ],
                env={
                    "PATH": os.environ["PATH"],
                    **inherited(),
                    "KEY": "sk-of-the-pod",
                },
                cwd=ROOT,
                capture_output=True,
                check=False,
            )
        assert done.returncode == 0, done.stderr.decode()
        kept[tier, uid] = json.loads(done.stdout)
    return kept[tier, uid]


def test_every_row_of_the_matrix_is_tried() -> None:
    assert list(MATRIX) == list(BY_ROW)


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("row", MATRIX)
def test_the_matrix_says_what_is_so(
    row: str,
    tier: Tier,
    who: str,
    results: dict[tuple[Tier, int], dict[str, bool]],
) -> None:
    need(tier)
    if os.geteuid() != 0 and who == "root":
        pytest.skip("only root can be root")
    uid = 0 if who == "root" else os.geteuid() or USER
    escaped = results_of(tier, uid, results)[row]

    blocked = is_blocked(MATRIX[row][tier], is_root=uid == 0)

    if blocked or not BY_ROW[row].depends:
        assert escaped is not blocked
