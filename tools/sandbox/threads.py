"""Starting a process from a thread of its own.

What a thread gives up (Landlock, seccomp, capabilities) it cannot get back, so
no thread of a pool may do it. And a process that is to end with its parent
ends with the *thread* that began it (PR_SET_PDEATHSIG).
"""

import errno
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from tools.launch import Started


def in_thread(act: Callable[[], Started]) -> Started:
    """Do *act* in a thread of its own, which ends with it."""
    done: list[Started] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(act())
        except BaseException as error:  # noqa: BLE001  raised again below
            failed.append(error)

    thread = Thread(target=run)
    _begin(thread)
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def in_lasting_thread(
    start: Callable[[], "subprocess.Popen[bytes]"],
) -> "subprocess.Popen[bytes]":
    """Start a process from a thread that lasts as long as the process."""
    answers: SimpleQueue[subprocess.Popen[bytes] | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            process = start()
        except BaseException as error:  # noqa: BLE001  raised again below
            answers.put(error)
            return
        answers.put(process)
        with suppress(ChildProcessError):  # somebody has waited for it
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    _begin(Thread(target=run, daemon=True))
    answer = answers.get()
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _begin(thread: Thread) -> None:
    try:
        thread.start()
    except RuntimeError as error:  # as fork() fails where there are too many
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
