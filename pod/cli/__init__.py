"""The command line: which commands there are, and how a line of arguments is run.

Each command imports what it needs when it is called, so that help, schema and
list answer at once.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from pod.cli import commands, live_commands
from pod.cli.run_command import run
from pod.cli.session_commands import session_app
from pod.exits import Exit
from pod.version import VERSION


def _shown(default: object) -> str | None:
    """Return a default as help shows it; nothing, no and empty go without saying."""
    return str(default) if default else None


app = App(
    name="pod",
    help="Run LLM agents that keep going: one manifest, one command, JSON-lines events.",
    version=VERSION,
    version_flags=["--version"],
    default_parameter=Parameter(show_default=_shown),
)
app.command(session_app)

_COMMANDS: Mapping[str, Callable[..., int]] = {
    "serve": live_commands.serve,
    "attach": live_commands.attach,
    "send": live_commands.send,
    "pause": live_commands.pause,
    "resume": live_commands.resume,
    "interrupt": live_commands.interrupt,
    "answer": live_commands.answer,
    "stop": live_commands.stop,
    "ps": live_commands.ps,
    "run": run,
    "compact": commands.compact,
    "demo": commands.demo,
    "import": commands.import_session,
    "export": commands.export,
    "check": commands.check,
    "doctor": commands.doctor,
    "schema": commands.schema,
}
for _name, _command in _COMMANDS.items():
    app.command(_command, name=_name)

FLAG_LIKE = re.compile(r"--?[A-Za-z][\w-]*(=.*)?", re.DOTALL)
"""A single word that is more likely a mistyped flag than a prompt."""


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code; never raises for bad input."""
    from pod.cli.streams import fill_gaps, release

    fill_gaps()
    try:
        return _run(arguments)
    finally:
        release()


def _run(arguments: Sequence[str]) -> int:
    from pod.cli.failing import report, usage

    if wrong := _mistyped_flag(arguments):
        return usage(wrong)
    try:
        result: object = app(
            list(arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        if isinstance(error, UnusedCliTokensError) and arguments[0] == "run":
            return usage('quote a prompt of several words: pod run "fix the tests"')
        command = " ".join(("pod", *(error.command_chain or ())))
        return usage(f"{error} See: {command} --help")
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich, printing help
            return Exit.DONE
        raise
    except KeyboardInterrupt:
        return Exit.SIGINT
    except Exception as error:  # noqa: BLE001  the outermost place: said in a line or two
        return report(error)
    except BaseExceptionGroup as error:
        if error.split(KeyboardInterrupt)[1] is None:
            return Exit.SIGINT
        raise
    return result if isinstance(result, int) else Exit.DONE


def _mistyped_flag(arguments: Sequence[str]) -> str | None:
    """Find a word among *arguments* that would be taken for a prompt by mistake.

    The prompt may start with a hyphen, so the parser takes an unknown flag for
    one. A flag that is known never gets here: what is asked is whether the
    parser would bind the word to the prompt.
    """
    if not arguments or arguments[0] != "run" or "--help" in arguments:
        return None
    try:
        _, bound, _, _ = app.parse_known_args(list(arguments))
    except CycloptsError:
        return None  # the real parse says what is wrong
    prompt = bound.args[0] if bound.args else None
    if not isinstance(prompt, str) or not FLAG_LIKE.fullmatch(prompt):
        return None
    before_dashes = (
        arguments[: arguments.index("--")] if "--" in arguments else arguments
    )
    if prompt not in before_dashes:
        return None
    flags = [n for a in app["run"].assemble_argument_collection() for n in a.names]
    near = get_close_matches(prompt.partition("=")[0], flags, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return (
        f"unknown flag {prompt}{hint}; for a prompt that is this one word,"
        f" write: pod run -- {prompt}"
    )
