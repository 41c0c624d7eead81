"""A prompt on standard input."""

from typing import TextIO

from pod.cli.failing import UsageError

MOST_INPUT = 16 * 1024 * 1024
"""Bytes of a prompt on standard input: more than any model's window has room for."""


def read_input(stdin: TextIO) -> str:
    """Return all of standard input as text. Raises UsageError where it has no end."""
    data = stdin.buffer.read(MOST_INPUT + 1)
    if len(data) > MOST_INPUT:
        raise UsageError(
            f"standard input has more than {MOST_INPUT // 2**20} MiB, too much for a"
            " prompt: put it into a file, and name that in the prompt"
        )
    return data.decode("utf-8", "replace").lstrip("\ufeff")
