"""What a person is told when a command cannot do its work."""

import sys
import traceback

from pod.cli.seconds import BadTime
from pod.errors import SessionError, SetupError
from pod.exits import Exit
from pod.manifest_errors import ManifestError


class UsageError(Exception):
    """Arguments that do not go together; the message says what to write instead."""


def usage(message: str) -> int:
    """Say on stderr what was wrong with the command."""
    sys.stderr.write(f"pod: {message}\n")
    return Exit.USAGE


def report(error: Exception) -> int:
    """Say on stderr what went wrong and return the exit code for it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case ManifestError(lines=lines):
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            return Exit.USAGE
        case UsageError() | BadTime():
            return usage(str(error))
        case SetupError(exit=exit_code):
            sys.stderr.write(f"pod: {error}\n")
            return exit_code
        case SessionError() | OSError():
            sys.stderr.write(f"pod: {error}\n")
            return Exit.FAILED
        case _:
            sys.stderr.write(
                "".join(traceback.format_exception(error))
                + "pod: this is a fault in Pod itself; the session, if one was open,"
                " can be resumed\n"
            )
            return Exit.FAILED
