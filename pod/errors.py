"""What can be wrong with a session, or with what somebody asks of a Pod.

The messages are for the person, *reason* and *code* for programs.
"""

from typing import ClassVar

from pod.entries import NavigationCode
from pod.exits import Exit


class SetupError(Exception):
    """What the manifest names cannot be had: a key, a function, a file."""

    def __init__(self, message: str, exit: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.exit = exit


class SessionError(Exception):
    """A session cannot be opened or written. *reason* is its word for programs."""

    reason: ClassVar[str] = "session_failed"


class NotASession(SessionError):
    """The file is no session log. It is left as it is."""

    reason = "not_a_session"


class NewerFormat(SessionError):
    """The log was written in a format that this version does not know."""

    reason = "session_newer"


class SessionLocked(SessionError):
    """Another process, or another place in this one, has the session open."""

    reason = "session_locked"


class SessionDamaged(SessionError):
    """The log is damaged in the middle: it can be read and repaired, not appended to."""

    reason = "session_damaged"


class SessionNotFound(SessionError):
    """No session has this id."""

    reason = "session_not_found"


class AmbiguousSession(SessionError):
    """Several sessions' ids begin with this."""

    reason = "session_ambiguous"


class EntryNotFound(SessionError):
    """The session has no such entry."""

    reason = "entry_not_found"


class AmbiguousEntry(SessionError):
    """Several entries could be meant."""

    reason = "entry_ambiguous"


class NavigationRefused(SessionError):
    """A navigation that could not begin: nothing to summarise, or nobody to do it."""

    reason = "navigation_refused"


class NavigationMissed(SessionError):
    """A navigation came to nothing; the leaf is where it was. *code* says why."""

    reason = "navigation_failed"

    def __init__(self, message: str, *, code: NavigationCode) -> None:
        super().__init__(message)
        self.code: NavigationCode = code


class Refused(Exception):
    """What somebody asked a Pod for cannot be done now. *code* is for programs."""

    code: ClassVar[str] = "internal"


class AlreadyRunning(Refused):
    """A run is under way, or a prompt waits for its own."""

    code = "already_running"


class NotRunning(Refused):
    """No run is under way."""

    code = "not_running"


class NotPaused(Refused):
    """There is no turn that stands open."""

    code = "not_paused"


class Busy(Refused):
    """A compaction, a navigation or a switch of models is under way."""

    code = "busy"


class InvalidRequest(Refused):
    """It makes no sense, whenever it is asked for."""

    code = "invalid_request"


class NotFound(Refused):
    """What it names is not there."""

    code = "not_found"


class NotDone(Refused):
    """It was begun, or accepted, and came to nothing."""

    code = "failed"


class ShutDown(Refused):
    """The Pod has ended, or is about to."""

    code = "shutting_down"


class Interrupted(Refused):
    """Somebody interrupted everything before it began; nothing came of it."""

    code = "interrupted"


class LogFailed(SessionError):
    """The log could not be read or written; what was acknowledged before stands."""

    reason = "log_failed"


class DiskFull(LogFailed):
    """No room for an entry. The log is whole, and can go on once there is room."""

    reason = "disk_full"
