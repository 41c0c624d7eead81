"""In every process that a test starts: writes down each event line that is made there.

Python imports this module by itself at its start, whatever the process then runs:
so the commands of the tests are the real ones, and none of them has to ask for it.
What a command imports is tested, so nothing is imported here that is not there anyway,
and nothing is done before pod.events is imported by somebody else.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and importlib would be imported by every process
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

VARIABLE = "POD_TEST_EVENTS"
"""Names the folder in which the lines go."""
MODULE = "pod.events"
MOST = 4 * 1024 * 1024
"""Bytes of one file, or a line more: one that is full and was read can go."""


class Recorder:
    """Appends lines to a file that no other process writes in.

    A line is in the system's hands when it can go out, so that it is there though
    the process is killed. Only the last one of a process may be torn.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._process = 0
        self._file = -1
        self._files = 0
        self._size = 0

    def __call__(self, line: bytes) -> None:
        if self._process != os.getpid():  # a fork has the files of its parent
            self._process = os.getpid()
            self._open()
        elif self._size > MOST:
            os.close(self._file)
            self._open()
        self._size += len(line)
        try:
            self._append(line)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            self._open()  # a test of small files: what is written of it is torn
            self._append(line)

    def _open(self) -> None:
        self._size = 0
        while True:
            self._files += 1
            try:
                self._file = os.open(
                    f"{self._folder}/{self._process}.{self._files}",
                    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL,
                    0o600,
                )
            except FileExistsError:  # of another process that had this number
                continue
            return

    def _append(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._file, rest) :]


class _Recording:
    """Loads a module as *loader* does, and has its lines recorded."""

    def __init__(self, loader: Loader, recorder: Recorder) -> None:
        self._loader = loader
        self._recorder = recorder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.checks.append(self._recorder)


class _Finder:
    """Comes before those who find modules, for one module."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != MODULE:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                recording = _Recording(spec.loader, self._recorder)
                spec.loader = recording  # type: ignore[assignment]  # importlib.abc stays out
                return spec
        return None


def install(folder: str) -> None:
    """Have the lines of this process written down in *folder*."""
    sys.meta_path.insert(0, _Finder(Recorder(folder)))


if __name__ == "sitecustomize" and VARIABLE in os.environ:
    install(os.environ[VARIABLE])
