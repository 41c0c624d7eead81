"""The arrows between the packages, and who may do IO."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BELOW = {
    "pod": {"pod", "worker", "tools", "prompts"},
    "worker": {"worker", "tools", "prompts"},
    "tools": {"tools"},
    "prompts": {"prompts"},
}
IO = {
    "anthropic",
    "fcntl",
    "httpx2",
    "io",
    "os",
    "pathlib",
    "random",
    "rich",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "trio",
}
"""What a pure module has no use for."""

PURE = {
    "pod": {
        "branch_summary/content",
        "branch_summary/prompt",
        "branch_summary/wish",
        "branches",
        "check",
        "check_hooks",
        "cli/drawing",
        "codec",
        "compaction/admission",
        "compaction/anchors",
        "compaction/breaker",
        "compaction/breakers_in_use",
        "compaction/clip",
        "compaction/continuation",
        "compaction/cut",
        "compaction/directives",
        "compaction/file_operations",
        "compaction/framing",
        "compaction/ground",
        "compaction/job",
        "compaction/limits",
        "compaction/mechanical",
        "compaction/native_block",
        "compaction/prune",
        "compaction/settings",
        "compaction/summary",
        "compaction/thrash",
        "compaction/thresholds",
        "compaction/verdict",
        "context",
        "ending",
        "entries",
        "events",
        "exits",
        "exporting/answers",
        "exporting/atif",
        "exporting/json",
        "exporting/markdown",
        "exporting/pi",
        "exporting/pi_lines",
        "exporting/source",
        "file_tools",
        "importing/build",
        "importing/claude_code",
        "importing/codex",
        "importing/decode",
        "importing/detect",
        "importing/format",
        "importing/outline",
        "importing/own",
        "importing/pi",
        "importing/pi_content",
        "importing/pi_lines",
        "importing/plan",
        "importing/records",
        "importing/shell_text",
        "importing/steps",
        "importing/swe_agent",
        "importing/tally",
        "importing/times",
        "importing/windows",
        "importing/write",
        "hooks/answers",
        "hooks/hook",
        "hooks/payloads",
        "hooks/schema",
        "manifest",
        "manifest_errors",
        "places",
        "permissions/commands",
        "permissions/doubts",
        "permissions/rulebook",
        "permissions/rules",
        "permissions/subjects",
        "redact",
        "rollback",
        "protocol/answers",
        "protocol/hub",
        "protocol/messages",
        "protocol/reading",
        "protocol/schema",
        "protocol/snapshot",
        "scan",
        "toml_positions",
        "tree",
        "view",
    },
    "worker": {
        "api",
        "client",
        "compact/budget",
        "compact/conversation",
        "compact/draft",
        "compact/ends",
        "compact/escape",
        "compact/guard",
        "compact/overview",
        "compact/quotes",
        "compact/summary",
        "compact/summary_prompts",
        "compact/task",
        "compact/task_text",
        "compact/windows",
        "crash",
        "draft",
        "encode",
        "endings",
        "events",
        "failures",
        "history",
        "items",
        "limits",
        "model",
        "overflow",
        "retry",
        "sse",
        "stream",
        "usage",
        "validate",
        "validate_content",
        "wire",
    },
    "tools": {"arguments", "text", "cap", "files_in_use"},
}
"""Modules that decide: values in, values out."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the top-level name of each import in *path*, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0], node.lineno


@pytest.mark.parametrize("package", BELOW)
def test_imports_point_down(package: str) -> None:
    allowed = BELOW[package]

    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in modules(package)
        for name, line in imported(path)
        if name in BELOW and name not in allowed
    ]

    assert wrong == []


@pytest.mark.parametrize("package", PURE)
def test_pure_modules_import_nothing_that_waits_or_touches_the_world(
    package: str,
) -> None:
    wrong = [
        f"{package}/{module}.py:{line}: {name}"
        for module in sorted(PURE[package])
        for name, line in imported(ROOT / package / f"{module}.py")
        if name in IO
    ]

    assert wrong == []


@pytest.mark.parametrize("package", PURE)
def test_pure_modules_have_no_async_function(package: str) -> None:
    protocols = {("worker", "client")}  # a Protocol may name async methods
    wrong = [
        f"{package}/{module}.py:{node.lineno}: {node.name}"
        for module in sorted(PURE[package])
        if (package, module) not in protocols
        for node in ast.walk(
            ast.parse((ROOT / package / f"{module}.py").read_text(encoding="utf-8"))
        )
        if isinstance(node, ast.AsyncFunctionDef)
    ]

    assert wrong == []
