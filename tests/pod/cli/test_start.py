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


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_a_light_command_answers_in_a_third_of_the_sdks_import_time(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    def seconds(command: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            command,
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Of the processor's time, and side by side: whatever else the machine does
    # weighs on both.
    pairs = [
        (
            seconds([*POD, *arguments]),
            seconds([sys.executable, "-c", "import anthropic"]),
        )
        for _ in range(3)
    ]

    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    assert ours < theirs / 3
