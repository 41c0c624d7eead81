"""``pod doctor`` says whether a run would start, and what is to be done."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from pod.cli import main
from pod.cli.doctor import Examination
from pod.doctor.finding import Finding
from pod.doctor.machine import PACKAGES
from pod.doctor.place import sessions
from pod.exits import Exit
from tests.command import ROOT, Done, pod
from tests.secret import KEY
from tests.tools.sandbox.tiers import need, some_mode
from worker.loopback.server import serve
from worker.policy import Echo

BASH = ("-c", f"sandbox.mode={some_mode()}")
SCRIPTED = ("-c", "model.provider=scripted", "-c", "model.id=echo", *BASH)


def found(examination: Examination) -> Mapping[str, Finding]:
    return {finding.name: finding for finding in examination.findings}


def parsed(done: Done) -> Examination:
    examination = msgspec.json.decode(done.out, type=Examination)
    assert examination.exit_code == done.code
    assert examination.ok is (done.code == 0)
    return examination


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def test_where_all_is_there_a_run_would_start(work: Path) -> None:
    async with serve(Echo("bash")) as server:
        done = await pod(
            "doctor",
            "--json",
            "-c",
            f"model.base_url={server.base_url}",
            *BASH,
            cwd=work,
            env={"ANTHROPIC_API_KEY": KEY},
        )

    findings = found(parsed(done))
    assert done.code == 0, done.out
    assert findings["key"] == Finding("key", "ok", "ANTHROPIC_API_KEY is set", True)
    assert findings["endpoint"].level == "ok"
    assert findings["endpoint"].value == server.base_url
    assert findings["window"].value == 1_000_000
    assert KEY not in done.out


async def test_a_missing_key_is_what_a_run_would_end_with(work: Path) -> None:
    done = await pod("doctor", "--offline", "--json", cwd=work)

    key = found(parsed(done))["key"]
    assert done.code == Exit.AUTH
    assert (key.level, key.fix) == ("error", "export ANTHROPIC_API_KEY=…")


async def test_an_address_where_nobody_is_cannot_be_reached(work: Path) -> None:
    url = "model.base_url=http://me:pw@127.0.0.1:1/x"
    done = await pod("doctor", "--json", "-c", url, *BASH, cwd=work)

    endpoint = found(parsed(done))["endpoint"]
    assert done.code == Exit.UNAVAILABLE
    assert endpoint.text.startswith("http://127.0.0.1:1/x cannot be reached: ")
    assert "pw@" not in done.out


Doctor = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(
    work: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Doctor:
    """Run it in this process, over a scripted model and sessions of its own."""
    monkeypatch.chdir(work)

    def run(*arguments: str) -> tuple[int, str]:
        sessions = ("-c", f"session.dir={work.parent}/sessions")
        code = main(["doctor", "--offline", *SCRIPTED, *sessions, *arguments])
        return code, capfd.readouterr().out

    return run


def test_people_get_aligned_lines_and_a_verdict(doctor: Doctor) -> None:
    code, out = doctor()

    lines = out.splitlines()
    assert code == 0
    assert lines[-1].startswith("A run would start")
    begins = {line.index(line[9:].split(None, 1)[1]) for line in lines[:2]}
    assert len(begins) == 1  # the texts are below each other
    assert any(line.startswith("ok       model ") for line in lines)
    # But for commands, which stay in one line.
    told = [line for line in lines if not line.strip().startswith("-> ")]
    assert all(len(line) <= 100 or " " not in line[20:] for line in told)


def test_a_manifest_that_does_not_load_is_said_line_by_line(
    doctor: Doctor, work: Path
) -> None:
    (work / "pod.toml").write_text("[model]\nmax_tokens = -1\nx = 2\n")

    code, out = doctor()

    assert code == Exit.USAGE
    assert out.count("error    manifest  pod.toml:") == 2
    assert out.endswith("A run would not start: 2 to mend.\n")


def test_a_function_that_cannot_be_loaded_is_an_error(
    doctor: Doctor, work: Path
) -> None:
    (work / "tools.py").write_text("raise RuntimeError('no')\n")

    code, out = doctor("-c", 'tools.python=["tools.py:x"]')

    assert code == Exit.USAGE
    assert "error    tools " in out


def test_what_lets_the_workspace_decide_which_code_runs_is_told(
    doctor: Doctor, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{work}/lib:/elsewhere:")
    monkeypatch.setenv("PATH", f"/usr/bin:{work}/bin:/bin")

    code, out = doctor("--json")

    examination = msgspec.json.decode(out, type=Examination)
    findings = found(examination)
    assert code == 0
    assert findings["PYTHONPATH"].level == "warning"
    assert findings["PYTHONPATH"].fix == "unset PYTHONPATH"
    assert f"{work}/lib" in findings["PYTHONPATH"].text
    assert findings["PATH"].value == f"{work}/bin"


def test_it_says_what_holds_commands_and_why(doctor: Doctor) -> None:
    if some_mode() == "off":
        need("bwrap")
    _, out = doctor("--json")
    sandbox = found(msgspec.json.decode(out, type=Examination))["sandbox"]
    assert sandbox.value in ("bwrap", "landlock", "seatbelt")

    _, out = doctor("--json", "-c", "sandbox.mode=off")
    off = found(msgspec.json.decode(out, type=Examination))["sandbox"]
    assert (off.level, off.value) == ("warning", "off")
    assert off.fix == 'set [sandbox] mode = "auto"'

    _, out = doctor("--json", "-c", 'tools.builtin=["read_file"]')
    none = found(msgspec.json.decode(out, type=Examination))["sandbox"]
    assert (none.level, none.value) == ("note", None)


def test_where_nothing_holds_commands_a_run_would_not_start(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    code, out = doctor("--json", "-c", "sandbox.mode=bwrap")

    sandbox = found(msgspec.json.decode(out, type=Examination))["sandbox"]
    assert code == Exit.USAGE
    assert (sandbox.level, sandbox.exit) == ("error", Exit.USAGE)
    assert sandbox.text.startswith("no sandbox for bash: ")


def test_hooks_listeners_and_rules_are_named(doctor: Doctor, work: Path) -> None:
    pods = work.parent / "pods"
    pods.mkdir()
    (pods / "guard").write_text("#!/bin/sh\n")
    (pods / "guard").chmod(0o755)
    (pods / "pod.toml").write_text(
        '[permissions]\nallowed_tools = ["Read"]\n'
        '[[hooks]]\nevent = "pre_tool_call"\ncommand = ["./guard", "a b"]\n'
        '[[listeners]]\nfile = "events.jsonl"\n'
    )

    code, out = doctor("-m", str(pods / "pod.toml"))

    assert code == 0, out
    lines = [line.split(None, 2) for line in out.splitlines() if line.startswith("ok")]
    told = {name: text for _, name, text in lines}
    assert told["hook"] == "pre_tool_call: ./guard 'a b'"
    assert told["listener"] == "events.jsonl"
    assert told["permissions"] == "1 rule, mode default"


def test_an_installation_inside_the_workspace_is_told(doctor: Doctor) -> None:
    _, out = doctor("--json", "-c", f'permissions.write_roots=["{ROOT}"]')

    told = [
        finding
        for finding in msgspec.json.decode(out, type=Examination).findings
        if finding.name == "installation"
    ]
    assert (told[0].level, told[0].value) == ("warning", str(ROOT))


def levels(folder: Path) -> list[tuple[str, str]]:
    return [(finding.name, finding.level) for finding in sessions(folder)]


def test_the_folder_for_sessions_is_looked_at_before_it_is_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a" / "sessions"
    assert levels(folder)[0] == ("sessions", "ok")
    assert not folder.exists()

    folder.mkdir(parents=True)
    folder.chmod(0o755)
    (told,) = (f for f in sessions(folder) if f.name == "sessions")
    assert (told.level, told.fix) == ("warning", f"chmod 700 {folder}")
    folder.chmod(0o700)
    assert levels(folder)[0] == ("sessions", "ok")


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert levels(tmp_path / "file" / "sessions") == [("sessions", "error")]


def test_the_packages_are_those_that_are_depended_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = {
        requirement.split(">")[0].split("~")[0].split("=")[0].split(";")[0].strip()
        for requirement in project["project"]["dependencies"]
    }

    assert names == set(PACKAGES)
