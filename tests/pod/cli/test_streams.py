"""stdin, stdout and stderr, whatever state the process got them in."""

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from pod.context import context
from pod.log import read_log
from tests.command import POD, environment
from tests.tools.sandbox.tiers import some_bash
from worker.items import UserText

MANIFEST = """
[model]
provider = "scripted"
id = "echo:1"
[tools]
builtin = ["bash"]
[session]
dir = "../sessions"
""" + some_bash()
SAID = b"Done after 1 call.\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pod.toml").write_text(MANIFEST)
    return folder


def shell(
    words: str,
    work: Path,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run *words*, in which ``pod`` is the command, in a shell."""
    function = f'pod() {{ {shlex.join(POD)} "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", function + words],
        cwd=work,
        env=environment(work.parent, **(env or {})),
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def prompt_of(work: Path) -> str:
    """Return the prompt of the only session."""
    (log,) = (work.parent / "sessions").glob("*.jsonl")
    first = context(read_log(log).entries)[0]
    assert isinstance(first, UserText)
    return first.text


@pytest.mark.parametrize(
    ("closed", "out"),
    [
        ("<&-", SAID),
        (">&-", b""),
        ("2>&-", SAID),
        ("<&- >&- 2>&-", b""),
    ],
)
def test_a_stream_that_is_closed_hurts_nobody(
    closed: str, out: bytes, work: Path
) -> None:
    done = shell(f"pod run hi -q {closed}", work)

    assert (done.returncode, done.stdout, done.stderr) == (0, out, b"")
    assert prompt_of(work) == "hi"


def test_the_log_is_free_of_what_is_printed_where_stdout_was_closed(
    work: Path,
) -> None:
    shell("pod run hi --output-format stream-json >&- 2>&-", work)

    (log,) = (work.parent / "sessions").glob("*.jsonl")
    assert read_log(log).damage == ()


def test_without_prompt_and_stdin_there_is_nothing_to_do(work: Path) -> None:
    done = shell("pod run <&-", work)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"pod: the prompt is empty\n"


@pytest.mark.parametrize("words", ["pod run -q", "pod run - -q"])
def test_a_prompt_is_piped_in(words: str, work: Path) -> None:
    done = shell(words, work, stdin=b"\xef\xbb\xbfcaf\xc3\xa9 \0 \xff\nend\n")

    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
    assert prompt_of(work) == "café \0 \ufffd\nend\n"


def test_a_piped_prompt_may_be_two_megabytes_long(work: Path) -> None:
    prompt = b"word " * 400_000

    done = shell(
        "pod run -q -c model.context_window=10000000 --output-format stream-json",
        work,
        stdin=prompt,
    )

    assert done.returncode == 0, done.stderr
    assert prompt_of(work) == prompt.decode()
    assert all(msgspec.json.decode(line) for line in done.stdout.splitlines())


def test_a_prompt_that_does_not_fit_ends_with_code_7_and_says_so(work: Path) -> None:
    words = "pod run -q -c compaction.enabled=false"
    done = shell(words, work, stdin=b"word " * 400_000)

    assert (done.returncode, done.stdout) == (7, b"")
    assert b"too long" in done.stderr


@pytest.mark.parametrize(
    "env", [{"LANG": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0"}], ids=["C", "POSIX"]
)
def test_a_locale_without_utf8_changes_no_text(env: dict[str, str], work: Path) -> None:
    done = shell("pod run 'café → x'", work, env=env)

    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
    assert b"Traceback" not in done.stderr
    assert prompt_of(work) == "café → x"


def test_a_prompt_that_is_no_utf8_is_made_so(work: Path) -> None:
    done = shell("pod run $'caf\\xe9 ok' -q", work)

    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
    assert prompt_of(work) == "caf\ufffd ok"


def test_a_folder_whose_name_is_no_utf8_is_worked_in(tmp_path: Path) -> None:
    work = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    work.mkdir()
    (work / "pod.toml").write_text(MANIFEST)

    first = shell("pod run hi -q", work)
    second = shell("pod run again --continue -q", work)

    assert (first.returncode, first.stdout) == (0, SAID), first.stderr
    assert (second.returncode, second.stdout) == (0, SAID), second.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "words",
    ["pod run hi -q", "pod run hi -q --output-format json", "pod session list"],
)
def test_an_answer_that_finds_no_room_is_a_failure(words: str, work: Path) -> None:
    shell("pod run first -q", work)

    done = shell(f"{words} >/dev/full", work)

    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_events_that_find_no_room_end_the_run_resumably(work: Path) -> None:
    done = shell("pod run hi -q --output-format stream-json >/dev/full", work)

    assert done.returncode == 1
    assert b"takes nothing any more" in done.stderr
    assert b"pod run --resume" in done.stderr


def test_a_gone_reader_is_no_failure_of_a_list(work: Path) -> None:
    done = shell(
        "pod run hi -q; pod session show --json $(ls ../sessions | head -1 | cut -d. -f1) | head -1; echo ${PIPESTATUS[0]}",
        work,
    )

    assert done.stdout.splitlines()[-1] == b"0"
    assert done.stderr == b""


@pytest.mark.parametrize("command", ["run", "send pod"])
def test_a_standard_input_without_end_is_refused(work: Path, command: str) -> None:
    done = shell(f"pod {command} - </dev/zero", work)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == (
        b"pod: standard input has more than 16 MiB, too much for a prompt: put it into"
        b" a file, and name that in the prompt\n"
    )


@pytest.mark.parametrize("command", ["run hi", "session list", "doctor", "demo"])
def test_a_working_folder_that_is_gone_is_said(work: Path, command: str) -> None:
    done = shell(f"mkdir d && cd d && rmdir ../d && pod {command}", work)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"pod: the folder that this was started in is gone:")
    assert b"--cd" in done.stderr


def test_a_gone_reader_is_no_failure_of_help(work: Path) -> None:
    done = shell("pod run --help | true; echo ${PIPESTATUS[0]}", work)

    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_a_function_that_prints_prints_to_stderr(work: Path) -> None:
    (work / "loud.py").write_text(
        "import os\n\n\ndef bash(command: str) -> str:\n"
        '    """Run."""\n    print("from print")\n    os.system("echo from a child")\n'
        '    return "x"\n\n\nprint("at import")\n'
    )

    done = shell(
        "pod run hi -q -c 'tools.builtin=[]' -c 'tools.python=[\"loud.py:bash\"]'", work
    )

    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
    assert {b"from print", b"from a child", b"at import"} <= set(
        done.stderr.splitlines()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-o missing/answer.txt", b"there is no folder missing"),
        ("-o .", b"a folder; name a file in it"),
    ],
)
def test_an_answer_file_that_cannot_be_is_refused_before_the_run(
    words: str, said: bytes, work: Path
) -> None:
    done = shell(f"pod run hi {words}", work)

    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr
    assert not (work.parent / "sessions").exists()


def test_an_answer_file_may_be_a_pipe(work: Path) -> None:
    words = "mkfifo ../pipe; cat ../pipe & pod run hi -q -o ../pipe >/dev/null; wait"

    done = shell(words, work)

    assert (done.stdout, done.stderr) == (SAID, b"")
    assert not (work.parent / "pipe").is_file()


def test_ctrl_c_before_there_is_a_run_is_code_130_without_a_word(work: Path) -> None:
    (work / "early.py").write_text(
        "import os\nimport signal\n\nos.kill(os.getpid(), signal.SIGINT)\n\n\n"
        'def f() -> None:\n    """Do."""\n'
    )

    done = subprocess.run(
        [*POD, "run", "hi", "-c", 'tools.python=["early.py:f"]'],
        cwd=work,
        env=environment(work.parent),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
    assert list((work.parent / "sessions").glob("*.jsonl")) == []


@pytest.mark.parametrize("milliseconds", [150, 300, 500])
def test_ctrl_c_at_any_early_moment_says_no_traceback_of_ours(
    milliseconds: int, work: Path
) -> None:
    process = subprocess.Popen(
        [*POD, "run", "hi", "-c", 'model.id="echo:100000"'],
        cwd=work,
        env=environment(work.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            process.wait(milliseconds / 1000)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)

    # Before our first line runs it is Python itself that is interrupted.
    assert process.returncode in {130, -signal.SIGINT}
    assert process.returncode == -signal.SIGINT or b"Traceback" not in err
