"""Runs the real command where less is allowed than the tests themselves may do."""

import subprocess
import sys
from pathlib import Path

from tests.command import POD, Done, environment

_AS_ANYBODY = """
import ctypes, os, sys
if os.geteuid() == 0:  # root, but without the right to pass over permissions
    for capability in (1, 2, 3):  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
        if ctypes.CDLL(None).prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            sys.exit("prctl failed")
os.execv(sys.argv[1], sys.argv[1:])
"""
_SMALL_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def as_anybody(work: Path, *arguments: str) -> Done:
    """Run ``pod`` in *work* as one who needs permissions, which root does not."""
    return _run(work, _AS_ANYBODY, *POD, *arguments)


def with_small_files(work: Path, most: int, *arguments: str) -> Done:
    """Run ``pod`` in *work* where no file takes more than *most* bytes.

    Writing fails then with EFBIG, which is a full disk as far as Pod is concerned.
    """
    return _run(work, _SMALL_FILES, str(most), *POD, *arguments)


def unconstrained(work: Path, *arguments: str) -> Done:
    return _run(
        work, "import os, sys; os.execv(sys.argv[1], sys.argv[1:])", *POD, *arguments
    )


def _run(work: Path, code: str, *arguments: str) -> Done:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=work,
        # A module's bytecode that is cut off would be everybody's.
        env=environment(work.parent, PYTHONDONTWRITEBYTECODE="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
