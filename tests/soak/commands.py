"""Commands that do not want to end: they ignore SIGTERM, or leave children behind."""

from random import Random

from msgspec import Struct

FOREVER = 0.05
"""How many of those that ignore SIGTERM have to be killed: each takes the time limit
and then all of the grace (tools.process.TERM_GRACE); the others end by themselves."""
HOLDS_PIPE = 0.03
"""How many of the children hold the output open (tools.process.PIPE_GRACE)."""


class Command(Struct, frozen=True):
    """One call of the bash tool; *timeout* is in seconds."""

    command: str
    timeout: float


def stubborn(random: Random) -> Command:
    """Return a command that ignores SIGTERM, and so does what it starts."""
    if random.random() < FOREVER:
        ignores = "trap '' TERM HUP INT; while :; do sleep 600; done"
        return Command(ignores, random.uniform(0.01, 0.05))
    ignores = "trap '' TERM HUP INT; sleep {:.3f}; echo done"
    return Command(ignores.format(random.uniform(0.003, 0.03)), 20)


def orphan(random: Random) -> Command:
    """Return a command that ends before its child does."""
    child = "sleep 600" if random.random() < 0.5 else "trap '' TERM; sleep 600"
    start = random.choice(
        (
            "({}){} &",
            "setsid bash -c '{}'{} &",
            "(setsid bash -c '{}'{} &) &",
            "nohup bash -c '{}'{} &",
        )
    )
    if "'" in start:
        child = child.replace("''", '""')
    quiet = "" if random.random() < HOLDS_PIPE else " >/dev/null 2>&1"
    stays = random.choice(("", "sleep 0.003", "sleep 0.01"))
    return Command(f"{start.format(child, quiet)}\n{stays}", 20)
