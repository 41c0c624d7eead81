"""What a person may write behind ``pod``, and what they are told when it is wrong."""

import os
import time
from pathlib import Path

import pytest

from pod.cli import main
from pod.exits import Exit
from tests.tools.sandbox.tiers import some_bash


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with a manifest that needs no network."""
    (tmp_path / "pod.toml").write_text(
        '[model]\nprovider = "scripted"\nid = "echo"\n'
        '[tools]\nbuiltin = ["bash"]\n[session]\ndir = "../sessions"\n' + some_bash()
    )
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "pod.toml").rename(work / "pod.toml")
    monkeypatch.chdir(work)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return work


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--tpyo"], "unknown flag --tpyo"),
        (["run", "--max-request=5", "x"], "did you mean --max-requests?"),
        (["run", "-x"], "unknown flag -x"),
        (["run", "--output=x"], "unknown flag --output=x"),
        (["run", "hi", "--output-format", "jsn"], "output-format"),
        (["run", "hi", "there"], "pod: quote a prompt of several words"),
        (["run", ""], "the prompt is empty"),
        (["run", " \n"], "the prompt is empty"),
        (["run", "--continue", "--resume", "x"], "exclude each other"),
        (["run", "hi", "--fork"], "--fork goes with"),
        (["run", "hi", "--refresh-prompt"], "--refresh-prompt goes with"),
        (["run", "--continue", "--ephemeral"], "--ephemeral"),
        (["run", "--continue"], "there is no session"),
        (["run", "hi", "--timeout", "soon"], "'soon' is no time"),
        (["run", "hi", "--timeout", "0"], "'0' is no time"),
        (["run", "hi", "--max-requests", "many"], '"many" is no whole number'),
        (["run", "hi", "--max-requests", "1.5"], '"1.5" is no whole number'),
        (["run", "hi", "--max-total-tokens", "1.5"], '"1.5" is no whole number'),
        (["session", "show", "x", "--compaction", "1.5"], "is no whole number"),
        (["attach", "x", "--from-seq", "1.5"], "is no whole number"),
        (["run", "hi", "--max-requests", "0"], "max_requests"),
        (["run", "hi", "--cd", "/no/such/folder"], "no such folder"),
        (["run", "hi", "-m", "nope.toml"], "nope.toml"),
        (["run", "hi", "-c", "model.idd=1"], "model"),
        (["run", "hi", "-c", "model.id=nobody"], '"echo" or "survey"'),
        (["rnu", "hi"], "rnu"),
        (["export"], "SESSION requires an argument. See: pod export --help"),
        (["schema", "events", "x"], "'x'"),
        (["session", "shw", "x"], "shw"),
        (["check", "nope.toml"], "nope.toml"),
        (["check", "-c", "retry.base=100"], "retry"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_in_words_with_exit_code_2(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    out, err = capfd.readouterr()
    assert (code, out if arguments[0] != "check" else "") == (Exit.USAGE, "")
    assert said in err
    assert "Traceback" not in err
    assert "╭" not in err  # a line that programs can read, and no frame around it


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["compact"],
        ["export"],
        ["serve"],
        ["session", "goto"],
        ["session", "list"],
    ],
    ids=" ".join,
)
def test_help_names_no_default_that_is_nothing(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = main([*command, "--help"])

    out, _ = capfd.readouterr()
    said = " ".join(out.replace("│", " ").split())
    assert code == Exit.DONE
    assert not [word for word in ('""', "()", "False") if f"default: {word}" in said]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "hello"],
        ["run", "- a list\n- of things"],
        ["run", "-fix this"],
        ["run", "--", "--help-wanted"],
        ["run", "-q", "hello", "--ephemeral"],
        ["run", "hello", "--max-turns", "9", "--timeout", "1m"],
    ],
    ids=" ".join,
)
def test_a_prompt_may_look_like_anything_but_a_mistyped_flag(
    arguments: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(arguments)

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.DONE, "Done after 3 calls.\n"), err


def test_a_session_that_is_not_there_is_a_failure(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = main(["run", "--resume", "20200101"])

    assert code == Exit.FAILED
    assert "no session 20200101" in capfd.readouterr().err


def test_a_missing_key_is_found_before_anything_is_sent(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)

    code = main(["run", "hi", "-c", "model.provider=anthropic", "-c", "model.id=m"])

    out, err = capfd.readouterr()
    assert (code, out) == (Exit.AUTH, "")
    assert "set ANTHROPIC_API_KEY" in err


def test_the_answer_goes_to_a_file_where_that_is_asked_for(somewhere: Path) -> None:
    code = main(["run", "hello", "-o", "answer.txt", "-q"])

    assert code == Exit.DONE
    assert (somewhere / "answer.txt").read_text() == "Done after 3 calls.\n"


def test_continue_takes_the_newest_session_of_the_folder(
    somewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    main(["run", "second", "--continue", "-q"])
    capfd.readouterr()

    main(["session", "list"])

    out, _ = capfd.readouterr()
    assert len(out.splitlines()) == 1
    assert "first" in out


def test_a_fork_leaves_the_session_as_it_was(
    somewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["run", "first", "-q"])
    (log,) = (somewhere.parent / "sessions").glob("*.jsonl")
    before = log.read_bytes()

    code = main(["run", "second", "--continue", "--fork", "-q"])

    assert code == Exit.DONE
    assert log.read_bytes() == before
    assert len(list(log.parent.glob("*.jsonl"))) == 2


def test_an_ephemeral_run_leaves_nothing(somewhere: Path) -> None:
    main(["run", "hello", "--ephemeral", "-q"])

    assert not (somewhere.parent / "sessions").exists()


def test_a_finished_session_is_not_gone_on_with_without_a_prompt(
    capfd: pytest.CaptureFixture[str],
) -> None:
    main(["run", "first", "-q"])

    code = main(["run", "--continue", "-q"])

    assert code == Exit.USAGE
    assert "nothing left to do" in capfd.readouterr().err


def test_a_session_is_shown_entry_by_entry(
    capfd: pytest.CaptureFixture[str], somewhere: Path
) -> None:
    main(["run", "first thing", "-q"])
    (log,) = (somewhere.parent / "sessions").glob("*.jsonl")
    capfd.readouterr()

    code = main(["session", "show", log.stem])

    out, _ = capfd.readouterr()
    assert code == Exit.DONE
    assert "user       first thing" in out
    assert 'call       bash {"command": "true"}' in out
    assert "assistant  Done after 3 calls." in out
    assert "run finished (done)" in out


def test_damage_is_shown_with_one_byte_and_what_repairs_it(
    capfd: pytest.CaptureFixture[str], somewhere: Path
) -> None:
    main(["run", "first thing", "-q"])
    (log,) = (somewhere.parent / "sessions").glob("*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[3:]]))
    capfd.readouterr()

    code = main(["session", "show", log.stem])

    _, err = capfd.readouterr()
    assert code == Exit.FAILED
    assert err.count("(byte ") == 1
    assert f"(byte {sum(map(len, lines[:3]))})" in err
    assert f"pod: 'pod session repair {log.stem}' puts a mended log in its" in err


def test_a_listing_has_the_readers_own_time_and_says_what_is_damaged(
    somewhere: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["run", "first thing", "-q"])
    (log,) = (somewhere.parent / "sessions").glob("*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[3:]]))
    os.utime(log, (0, 0))
    monkeypatch.setenv("TZ", "XYZ-5:30")
    time.tzset()
    capfd.readouterr()

    try:
        main(["session", "list"])
    finally:
        monkeypatch.undo()
        time.tzset()

    assert "  1970-01-01 05:30  damaged  " in capfd.readouterr().out


PLAIN = ["check", "-c", 'session.dir="../sessions"', "-c", "permissions.write_roots=[]"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["model.id=nobody"], '"echo" or "survey"'),
        (['tools.python=["t.py:no_such"]'], "[tools] python: "),
        (['tools.python=["t.py:broken"]'], "parameter a has no type"),
        (['tools.python=["bad.py:any"]'], "bad.py"),
        (['tools.python=["none.py:any"]'], "none.py"),
        (['tools.python=["t.py:bash"]'], '"bash"'),
    ],
    ids=" ".join,
)
def test_a_check_refuses_what_a_run_refuses(
    settings: list[str], said: str, somewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (somewhere / "t.py").write_text("def broken(a): ...\ndef bash() -> str: ...\n")
    (somewhere / "bad.py").write_text("1 / 0\n")
    flags = [word for setting in settings for word in ("-c", setting)]

    codes = [main([*PLAIN, *flags]), main(["run", "hi", *flags])]

    err = capfd.readouterr().err
    assert codes == [Exit.USAGE, Exit.USAGE]
    assert err.count(said) >= 2
    assert "pod: 1 to mend before this can run\n" in err


def test_a_check_loads_functions_and_keeps_what_they_print_off_its_result(
    somewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (somewhere / "t.py").write_text("print('loaded')\ndef f() -> str: ...\n")

    code = main([*PLAIN, "-c", 'tools.python=["t.py:f"]', "-c", "sandbox.mode=auto"])

    out, err = capfd.readouterr()
    assert (code, err) == (Exit.DONE, "loaded\n")
    assert out.startswith("[pod]\n")


def test_a_manifest_is_checked_with_or_without_its_flag(
    somewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (somewhere / "other.toml").write_text('[pod]\nname = "other"\n')

    codes = [main([*PLAIN, *more, "other.toml"]) for more in ([], ["-m"])]
    plain, flagged = capfd.readouterr().out.split("[pod]\n")[1:]
    both = main([*PLAIN, "other.toml", "-m", "pod.toml"])

    assert codes == [Exit.DONE, Exit.DONE]
    assert 'name = "other"' in plain
    assert plain == flagged
    assert both == Exit.USAGE
    assert "name one of them" in capfd.readouterr().err


def test_a_session_that_is_not_there_is_said_before_a_key_is_asked_for(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = main(["run", "hi", "--resume", "nope", "-c", "model.provider=anthropic"])

    assert code == Exit.FAILED
    assert capfd.readouterr().err.startswith("pod: no session nope in ")
