"""What will hold the commands of a model."""

from collections.abc import Iterator
from pathlib import Path

from pod.doctor.finding import Finding, error, note, ok, warning
from pod.errors import SetupError
from pod.load_manifest import Loaded
from pod.sandbox import find_sandbox
from tools.sandbox.probe import Report


def sandbox(loaded: Loaded, cwd: Path) -> Iterator[Finding]:
    """Say which tier is in force and why; it is tried by running something in it."""
    try:
        report = find_sandbox(loaded, cwd)
    except SetupError as problem:
        # What was tried, and at last what to do without.
        *tried, way_out = (line.strip() for line in str(problem).splitlines())
        yield error(
            "sandbox",
            " | ".join(tried),
            None,
            fix=way_out.removeprefix("Or "),
            exit=problem.exit,
        )
        return
    if report is None:
        yield note("sandbox", "none: bash is not among the tools")
        return
    yield _tier(report)
    if report.limits:
        yield ok("limits", report.limits)


def _tier(report: Report) -> Finding:
    text = f"{report.tier}: {report.why}"
    if report.tier == "off":
        return warning(
            "sandbox",
            f"{text}; commands may do whatever you may",
            "off",
            fix='set [sandbox] mode = "auto"',
        )
    remedies = (tried.remedy for tried in report.attempts if not tried.works)
    if fix := " ".join(filter(None, remedies)):
        return warning("sandbox", text, report.tier, fix=fix)
    return ok("sandbox", text, report.tier)
