"""``python -m tests.benchmarks [NAME ...]``: measure, and print tables."""

import sys
from importlib import import_module

NAMES = (
    "turns",
    "parts",
    "startup",
    "long_session",
    "long_output",
    "sandbox",
    "listeners",
)


def main() -> None:
    """Run the named benchmarks, or all of them."""
    asked = sys.argv[1:] or NAMES
    if unknown := [name for name in asked if name not in NAMES]:
        sys.exit(f"no benchmark {', '.join(unknown)}: there are {', '.join(NAMES)}")
    for name in asked:
        import_module(f"tests.benchmarks.{name}").main()


if __name__ == "__main__":
    main()
