"""``python -m tools.sandbox [auto|bwrap|landlock]``: say what holds commands here."""

import sys
from typing import get_args

from tools.sandbox.policy import Mode
from tools.sandbox.probe import probe


def main(arguments: list[str]) -> int:
    """Print the tier and why; exit code 1 where there is none."""
    asked = arguments[0] if arguments else "auto"
    for mode in get_args(Mode):
        if mode == asked:
            report = probe(mode)
            if report.tier is None:
                sys.stdout.write(f"{report.refusal}\n")
                return 1
            sys.stdout.write(f"{report.tier}: {report.why} ({report.limits})\n")
            return 0
    sys.stderr.write(f"no mode {asked!r}: one of {', '.join(get_args(Mode))}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
