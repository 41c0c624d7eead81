"""The profile that macOS's sandbox-exec holds a command to. Written, never run."""

from tools.sandbox.policy import Policy, Surroundings


def profile(
    policy: Policy, surroundings: Surroundings, private: tuple[str, ...]
) -> str:
    """Return a profile in the sandbox's own language; the last rule that fits wins."""
    read = (*policy.read, *policy.write, *surroundings.programs, *private)
    write = (*policy.write, *private)
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        f"(deny file-read-data (subpath {_quoted(surroundings.home)}))",
        *(f"(allow file-read* (subpath {_quoted(path)}))" for path in read),
        *(f"(allow file-write* (subpath {_quoted(path)}))" for path in write),
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero"))',
        *(_pinned(path) for path in policy.write),
        "(deny signal (target others))",
        '(deny mach-lookup (global-name-regex #"^com\\.apple\\.(pasteboard|securityd)"))',
    ]
    if policy.network == "none":
        lines.append("(deny network*)")
    elif not policy.unix_sockets:
        lines.append("(deny network* (remote unix-socket) (local unix-socket))")
    return "\n".join(lines)


def _pinned(folder: str) -> str:
    git = f"{folder.rstrip('/')}/.git"
    return (
        f"(deny file-write* (subpath {_quoted(f'{git}/hooks')})"
        f" (literal {_quoted(f'{git}/config')}) (literal {_quoted(git)}))"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
