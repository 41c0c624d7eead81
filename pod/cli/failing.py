"""What a person is told when a command cannot do its work."""

import os
import traceback

from pod.cli.seconds import BadTime
from pod.cli.streams import say
from pod.errors import SessionError, SetupError
from pod.exits import Exit
from pod.manifest_errors import ManifestError
from pod.toml_text import printable


class UsageError(Exception):
    """Arguments that do not go together; the message says what to write instead."""


def usage(message: str) -> int:
    """Say on stderr what was wrong with the command."""
    say(f"pod: {message}")
    return Exit.USAGE


def report(error: Exception) -> int:
    """Say on stderr what went wrong and return the exit code for it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case ManifestError(lines=lines):
            say("\n".join(lines))
            return Exit.USAGE
        case UsageError() | BadTime():
            return usage(str(error))
        case SetupError(exit=exit_code):
            say(f"pod: {error}")
            return exit_code
        case SessionError():
            say(f"pod: {error}")
            return Exit.FAILED
        case OSError():
            say(f"pod: {_words(error)}")
            return Exit.FAILED
        case _:
            say(
                "".join(traceback.format_exception(error))
                + "pod: this is a fault in Pod itself; the session, if one was open,"
                " can be resumed"
            )
            return Exit.FAILED


def _words(error: OSError) -> str:
    """Say an error of the system with its file, and without its number."""
    if error.strerror is None or error.filename is None:
        return error.strerror or str(error)
    name = error.filename
    shown = os.fsdecode(name) if isinstance(name, str | bytes) else str(name)
    return f"{printable(shown)}: {error.strerror}"
