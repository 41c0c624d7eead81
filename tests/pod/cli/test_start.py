"""What starts fast must not load what is slow."""

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import POD, environment

HEAVY = ("anthropic", "pydantic", "tiktoken", "toktok", "genai_prices", "httpx2")
LIGHT = (("--help",), ("schema",), ("session", "list"))
NEARLY = (
    ("session", "tree", "x"),
    ("session", "fork", "x"),
    ("session", "goto", "x", "y"),
)
"""No session is there; what they load until they find out is what counts."""


@pytest.mark.parametrize("arguments", [*LIGHT, *NEARLY], ids=" ".join)
def test_a_light_command_loads_nothing_heavy(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "from pod.cli import main\n"
        f"main({list(arguments)!r})\n"
        f"loaded = [n for n in {HEAVY!r} if n in sys.modules]\n"
        "sys.exit(' '.join(loaded) or 0)\n"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def seconds(command: list[str], folder: Path) -> float:
    """Return what *command* takes of the processor, the median of three times.

    The processor's time: whatever else the machine does is no part of it.
    """
    taken = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        user, system = (
            after.ru_utime - before.ru_utime,
            after.ru_stime - before.ru_stime,
        )
        taken.append(user + system)
    return statistics.median(taken)


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Measure the import of the SDK once: it is the same for all."""
    command = [sys.executable, "-c", "import anthropic"]
    return seconds(command, tmp_path_factory.mktemp("sdk"))


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_a_light_command_answers_in_a_third_of_the_sdks_import_time(
    arguments: tuple[str, ...], tmp_path: Path, sdk: float
) -> None:
    assert seconds([*POD, *arguments], tmp_path) < sdk / 3
