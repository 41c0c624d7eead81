"""``python -m tests.soak``: break things for a while, print figures, exit 0 if all held."""

import argparse
import secrets
import sys
from collections.abc import Sequence

from tests.soak.disks import fail_disks
from tests.soak.kills import kill
from tests.soak.lines import spoil_lines


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    commands = parser.add_subparsers(dest="command", required=True)
    kills = commands.add_parser("kills", help="kill at every write of many sessions")
    kills.add_argument("--points", type=int, default=10_000)
    disks = commands.add_parser("disks", help="sessions on disks that fail")
    disks.add_argument("--stories", type=int, default=1_000)
    lines = commands.add_parser("lines", help="answers that come over a bad line")
    lines.add_argument("--stories", type=int, default=1_000)
    given = parser.parse_args(arguments)
    say(f"seed {given.seed}")
    match given.command:
        case "kills":
            found = kill(given.points, given.seed)
            wrong = found.wrong
            say(str(found))
        case "lines":
            spoiled = spoil_lines(given.stories, given.seed)
            wrong = spoiled.wrong
            say(str(spoiled))
        case _:
            failed = fail_disks(given.stories, given.seed)
            wrong = failed.wrong
            say(str(failed))
    for problem in wrong:
        say(problem)
    return 1 if wrong else 0


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  a command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
