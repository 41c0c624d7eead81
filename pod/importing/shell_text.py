"""How a command that the user ran by hand reads in the history."""


def ran(
    command: str,
    output: str,
    *,
    exit_code: int | None = None,
    is_cancelled: bool = False,
) -> str:
    """Return a command and its output as one message in the user's place."""
    ending = ""
    if is_cancelled:
        ending = "\n(cancelled)"
    elif exit_code:
        ending = f"\n(exit code {exit_code})"
    shown = f"\n\n{output.rstrip()}" if output.strip() else "\n\n(no output)"
    return f"I ran this command: {command}{shown}{ending}"
