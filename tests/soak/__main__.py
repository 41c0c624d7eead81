"""``python -m tests.soak``: break things for a while, print figures, exit 0 if all held."""

import argparse
import secrets
import sys
from collections.abc import Sequence

from tests.recorded import holding
from tests.soak.minutes import KINDS, race_everywhere, soak

AMOUNTS = {
    "kills": 10_000,
    "disks": 1_000,
    "lines": 1_000,
    "races": 200,
    "processes": 200,
}
"""What each kind does by itself where no amount is given."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="With a kind alone that, otherwise all of them for some minutes.",
    )
    parser.add_argument("kind", nargs="?", choices=KINDS)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--amount", type=int, help="kill points, stories, seeds a pair, or kills"
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    given = parser.parse_args(arguments)
    say(f"seed {given.seed}")
    with holding() as held:
        if given.kind is None:
            wrong = soak(given.minutes, given.seed, say, held.wrong)
        else:
            act = race_everywhere if given.kind == "races" else KINDS[given.kind][0]
            found = act(given.amount or AMOUNTS[given.kind], given.seed)
            say(str(found))
            wrong = getattr(found, "wrong", []) + held.wrong()
        if held.checked:  # in-memory stories make no lines of them
            say(f"{held.checked} events held to the published schema")
    for problem in wrong:
        say(problem)
    return 1 if wrong else 0


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
