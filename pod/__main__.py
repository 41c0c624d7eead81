"""The console script: check the installation, then hand over to the command line."""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("pod", "worker", "tools", "prompts")


def main() -> int:
    """Run the command line on sys.argv and return the exit code."""
    if wrong := misplaced():
        sys.stderr.write(f"pod: {wrong}\n")
        return 1
    from pod import collector

    collector.pause()
    try:
        from pod.cli import main as run_command_line

        return run_command_line(sys.argv[1:])
    except KeyboardInterrupt:  # before a run was there to be ended
        return 130
    finally:
        collector.skip_last()


def misplaced() -> str | None:
    """Say what is wrong where the four packages do not lie beside each other.

    Their names are common: a folder called tools/ in a workspace, or another
    distribution's, would be run in place of ours.
    """
    home = Path(__file__).resolve().parents[1]
    for package in PACKAGES:
        spec = find_spec(package)
        found = None if spec is None or spec.origin is None else Path(spec.origin)
        if found is None or found.resolve().parents[1] != home:
            return (
                f"the package {package!r} was found at {found}, not beside"
                f" {home / 'pod'}. Start Pod by its console script or with"
                " 'python -P -m pod', from an environment of its own."
            )
    return None


if __name__ == "__main__":
    sys.exit(main())
