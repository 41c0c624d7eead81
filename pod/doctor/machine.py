"""What the machine and the installation are like."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import trio

from pod.doctor.finding import Finding, error, note, ok, warning
from pod.version import VERSION
from tools.landlock import abi
from tools.programs import find_program

PACKAGES = (
    *("anthropic", "cyclopts", "docstring-parser", "genai-prices", "h11", "httpx2"),
    *("msgspec", "platformdirs", "rich", "tiktoken", "tomli", "toktok-rs", "trio"),
)
"""What Pod is built on; a test holds it to pyproject.toml."""

PROGRAM_SECONDS = 5.0

_MANAGERS = ("apt-get", "dnf", "pacman", "apk", "zypper", "brew")
_INSTALL = {"pacman": "pacman -S", "apk": "apk add"}


def installation() -> Iterator[Finding]:
    yield ok("pod", f"{VERSION}, in {Path(__file__).parents[2]}", VERSION)
    text = f"{platform.python_version()} ({sys.executable})"
    yield ok("python", text, platform.python_version())
    found = {name: _version(name) for name in PACKAGES}
    missing = [name for name, there in found.items() if there is None]
    listed = ", ".join(f"{name} {there}" for name, there in found.items() if there)
    if missing:
        yield error(
            "packages",
            f"not there: {', '.join(missing)}; there: {listed}",
            listed,
            fix=f"{sys.executable} -m pip install pod-runtime",
        )
    else:
        yield ok("packages", listed, listed)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def system() -> Iterator[Finding]:
    kernel = f"{platform.system()} {platform.release()} ({platform.machine()})"
    yield ok("kernel", kernel, platform.release())
    landlock = abi()
    if landlock:
        yield ok("landlock", f"ABI {landlock}", landlock)
    else:
        yield note(
            "landlock",
            "not there: the compact worker and searches are held by the scope alone",
            0,
        )
    if os.geteuid() == 0:
        yield note(
            "user",
            "root: whatever escapes from a sandbox may do anything here",
            "root",
            fix="run Pods as a user of their own",
        )
    else:
        yield ok("user", f"uid {os.geteuid()}", os.geteuid())


def environment(write_roots: Sequence[str]) -> Iterator[Finding]:
    """Look for what lets the workspace decide which code is run."""
    for what, place in (("Pod", Path(__file__).parents[2]), ("Python", sys.prefix)):
        if _is_in(str(place), write_roots):
            yield warning(
                "installation",
                f"{what} itself lies in the workspace ({place}): what the model writes"
                " there runs outside of every sandbox, from the next start on",
                str(place),
                fix="install Pod elsewhere (pipx, uv tool), or narrow write_roots",
            )
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME"):
        value = os.environ.get(name)
        if value is None:
            continue
        inside = [each for each in value.split(os.pathsep) if _is_in(each, write_roots)]
        if inside:
            yield warning(
                name,
                f"leads into the workspace ({', '.join(map(repr, inside))}): Python"
                " itself would run the model's files, before Pod can do anything",
                value,
                fix=f"unset {name}",
            )
        else:
            yield note(name, f"is set: {value}", value)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    inside = [each for each in folders if _is_in(each, write_roots)]
    if inside:
        yield note(
            "PATH",
            f"has {', '.join(map(repr, inside))}: passed over for Pod's own programs",
            os.pathsep.join(inside),
        )


def _is_in(folder: str, roots: Sequence[str]) -> bool:
    """Whether *folder* means another one in each working folder, or lies in *roots*."""
    if not folder.startswith("/"):
        return True
    real = os.path.realpath(folder)
    return any(f"{real}/".startswith(f"{root.rstrip('/')}/") for root in roots)


async def programs(write_roots: Sequence[str]) -> list[Finding]:
    """Look for the programs that Pod, or the commands of a model, may start."""
    wanted: tuple[tuple[str, str, str], ...] = (
        ("rg", "ripgrep", "grep does without it, slower"),
        ("git", "git", "for the model's commands; Pod itself does not run it"),
        ("bash", "bash", "there is no bash tool without it"),
    )
    findings = []
    for name, package, why in wanted:
        path = find_program(name, outside=write_roots)
        if path is None:
            findings.append(
                note(name, f"not found: {why}", None, fix=install_command(package))
            )
            continue
        said = await _said(path)
        findings.append(ok(name, f"{said or 'there'} ({path})", said or path))
    return findings


async def _said(path: str) -> str:
    """Return the first line that a program says of its version."""
    with trio.move_on_after(PROGRAM_SECONDS):
        done = await trio.run_process(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
        lines = done.stdout.decode(errors="replace").splitlines()
        return lines[0].strip()[:80] if lines else ""
    return ""


def install_command(package: str) -> str:
    """Return the command that installs *package* here."""
    for manager in _MANAGERS:
        if find_program(manager, outside=()) is not None:
            install = _INSTALL.get(manager, f"{manager} install")
            sudo = "" if os.geteuid() == 0 or manager == "brew" else "sudo "
            return f"{sudo}{install} {package}"
    return f"install {package}"
