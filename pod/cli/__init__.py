"""The command line: what the commands and flags are, and nothing else.

Each command imports what it needs when it is called, so that help, schema and
list answer at once.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from pod.cli.flags import Folder, Json, ManifestPath, Quiet, Settings
from pod.cli.live_commands import (
    answer,
    attach,
    interrupt,
    pause,
    ps,
    resume,
    send,
    serve,
    stop,
)
from pod.cli.options import ExportFormat, Mode, Options, OutputFormat, PermissionMode
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

for _command in (serve, attach, send, pause, resume, interrupt, answer, stop, ps):
    app.command(_command)


@app.command
def run(
    prompt: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
    resume: Annotated[
        str | None,
        Parameter(
            metavar="SESSION", help="Go on with this session: its id, or a part of it."
        ),
    ] = None,
    continue_: Annotated[
        bool,
        Parameter(
            name="--continue",
            negative=(),
            help="Go on with the newest session of the working folder.",
        ),
    ] = False,
    fork: Annotated[
        bool,
        Parameter(
            negative=(),
            help="With --resume or --continue: go on in a copy; the session stays as it is.",
        ),
    ] = False,
    at: Annotated[
        str | None,
        Parameter(
            metavar="ENTRY",
            help="With --resume or --continue: go on from this entry (pod session tree"
            " has them), before it if it is a message of the user's.",
        ),
    ] = None,
    ephemeral: Annotated[
        bool, Parameter(negative=(), help="Keep no session log.")
    ] = False,
    refresh_prompt: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Take the manifest's system prompt in place of the session's own.",
        ),
    ] = False,
    output_format: Annotated[
        OutputFormat,
        Parameter(
            help="text: the answer; json: the result; stream-json: every event, a line each."
        ),
    ] = "text",
    include_partial_messages: Annotated[
        bool,
        Parameter(negative=(), help="With stream-json: text while it is written, too."),
    ] = False,
    output_last_message: Annotated[
        Path | None,
        Parameter(
            name=["--output-last-message", "-o"],
            help="Write the answer's text to this file.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        Parameter(metavar="ID", help="The model's id (model.id of the manifest)."),
    ] = None,
    max_requests: Annotated[
        int | None,
        Parameter(
            name=["--max-requests", "--max-turns"], help="Most calls to the model."
        ),
    ] = None,
    max_total_tokens: Annotated[
        int | None, Parameter(help="Most tokens, prompts and answers together.")
    ] = None,
    max_budget_usd: Annotated[
        float | None, Parameter(help="Most US dollars to spend.")
    ] = None,
    timeout: Annotated[
        str | None,
        Parameter(metavar="TIME", help="Longest time for the run: 90, 90s, 30m, 2h."),
    ] = None,
    permission_mode: Annotated[
        PermissionMode | None,
        Parameter(
            help="plan: only look; acceptEdits: ask for all but file tools;"
            " dontAsk: deny instead of asking; bypassPermissions: allow instead."
        ),
    ] = None,
    allowed_tools: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--allowed-tools", "--allowedTools"],
            metavar="RULES",
            negative=(),
            help='Only these calls: "Read, Bash(git *)". What no rule allows is denied.',
        ),
    ] = (),
    disallowed_tools: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--disallowed-tools", "--disallowedTools"],
            metavar="RULES",
            negative=(),
            help='Never these calls, whatever else is allowed: "Bash(rm *)".',
        ),
    ] = (),
    quiet: Quiet = False,
) -> int:
    """Run one prompt to its end.

    Parameters
    ----------
    prompt
        What to do; - reads it from standard input. It may start with a hyphen,
        but a single word that looks like a flag goes behind --.
    """
    from pod.cli.run import run_prompt
    from pod.cli.seconds import parse_seconds

    seconds = None if timeout is None else parse_seconds(timeout)
    flags = {
        "model.id": model,
        "limits.max_requests": max_requests,
        "limits.max_total_tokens": max_total_tokens,
        "limits.max_budget_usd": max_budget_usd,
        "limits.timeout": seconds,
        "permissions.mode": permission_mode,
    }
    tools = {
        "permissions.allowed_tools": allowed_tools,
        "permissions.disallowed_tools": disallowed_tools,
    }
    return run_prompt(
        Options(
            prompt=prompt,
            manifest=manifest,
            settings=settings + _overrides(flags) + _tool_lists(tools),
            cd=cd,
            resume=resume,
            newest=continue_,
            fork=fork,
            at=at,
            ephemeral=ephemeral,
            refresh_prompt=refresh_prompt,
            output_format=output_format,
            partial=include_partial_messages,
            answer_file=output_last_message,
            quiet=quiet,
        )
    )


@app.command
def compact(
    session: str,
    /,
    *,
    instructions: Annotated[
        str,
        Parameter(
            metavar="TEXT", help="What the summary should look at in particular."
        ),
    ] = "",
    mode: Annotated[
        Mode | None,
        Parameter(
            help="Only this way; without it the manifest's, one after the other."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Show what would be done: no model is asked, nothing is written.",
        ),
    ] = False,
    at: Annotated[
        str | None,
        Parameter(
            metavar="ENTRY",
            help="With --dry-run: as if this entry of the log were the last; an entry"
            " is named as for pod session goto.",
        ),
    ] = None,
    refresh_prompt: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Take the manifest's system prompt in place of the session's own.",
        ),
    ] = False,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
    quiet: Quiet = False,
) -> int:
    """Replace the older part of a session's context by a summary, now.

    Parameters
    ----------
    session
        Its id, or enough of it to tell it from others.
    """
    from pod.cli.compact import run_compact

    options = Options(
        manifest=manifest,
        settings=settings,
        cd=cd,
        resume=session,
        refresh_prompt=refresh_prompt,
        quiet=quiet,
    )
    return run_compact(
        options, instructions=instructions, mode=mode, is_dry=dry_run, at=at
    )


@app.command
def demo(
    folder: Path | None = None,
    /,
    *,
    http: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Through a server on this machine that speaks the Anthropic API, and its SDK.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="Where the report goes."),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Survey a folder and write a report: a real run, offline, without a key.

    Parameters
    ----------
    folder
        The folder to survey; the working folder without it.
    """
    from pod.cli.demo import run_demo

    return run_demo(folder, http=http, output=output, quiet=quiet)


@app.command(name="import")
def import_session(
    file: Path,
    /,
    *,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
    dir_: Annotated[
        Path | None,
        Parameter(name="--dir", help="The folder of sessions to put it into."),
    ] = None,
    json: Json = False,
) -> int:
    """Read a session of pi, oh-my-pi, Claude Code, Codex or SWE-agent into one of Pod's.

    Parameters
    ----------
    file
        The session's file; which agent wrote it is told by its contents.
    """
    from pod.cli.import_ import run_import

    return run_import(
        file, manifest=manifest, settings=settings, cd=cd, folder=dir_, as_json=json
    )


@app.command
def export(
    session: str,
    /,
    *,
    format_: Annotated[
        ExportFormat,
        Parameter(
            name=["--format", "-f"],
            help="md: a transcript; json: the whole session; atif: a trajectory; pi: for pi, and back.",
        ),
    ] = "md",
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"], help="Write to this file, not standard output."
        ),
    ] = None,
    force: Annotated[
        bool, Parameter(negative=(), help="Write over a file that is there.")
    ] = False,
    redact: Annotated[
        bool,
        Parameter(
            negative="--no-redact",
            help="Replace what looks like a key or a token by [redacted].",
        ),
    ] = True,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
) -> int:
    """Write a session for people or for other programs.

    Parameters
    ----------
    session
        Its id, or enough of it to tell it from others.
    """
    from pod.cli.export import run_export

    return run_export(
        session,
        format_,
        manifest=manifest,
        settings=settings,
        cd=cd,
        output=output,
        force=force,
        redact=redact,
    )


@app.command
def check(
    file: Path | None = None,
    /,
    *,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
) -> int:
    """Check a manifest; print it whole, with where each value came from.

    Parameters
    ----------
    file
        The manifest, as with --manifest.
    """
    from pod.cli.check import run_check
    from pod.cli.failing import usage

    if file is not None and manifest is not None:
        return usage(f"two manifests, {file} and -m {manifest}: name one of them")
    return run_check(file or manifest, settings=settings, cd=cd)


@app.command
def doctor(
    *,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
    offline: Annotated[
        bool, Parameter(negative=(), help="Do not ask the provider's address.")
    ] = False,
    json: Json = False,
) -> int:
    """Say whether a run would start here, what is missing, and how to get it."""
    from pod.cli.doctor import run_doctor

    return run_doctor(
        manifest, settings=settings, cd=cd, as_json=json, is_offline=offline
    )


@app.command
def schema(of: Literal["manifest", "events", "hooks"] = "manifest", /) -> int:
    """Print a JSON Schema: the manifest's for editors, the protocol's, or of hooks.

    Parameters
    ----------
    of
        manifest; events: every event, request and response of the protocol;
        hooks: what hooks are told and may answer.
    """
    if of == "hooks":
        from pod.cli.streams import give
        from pod.hooks.schema import hooks_schema

        give(hooks_schema())
        return Exit.DONE
    if of == "events":
        from pod.cli.streams import give
        from pod.protocol.schema import protocol_schema

        give(protocol_schema())
        return Exit.DONE
    from pod.cli.check import print_schema

    return print_schema()


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


def _overrides(flags: dict[str, str | int | float | None]) -> tuple[str, ...]:
    """Write flags that stand for keys of the manifest as settings."""
    from pod.toml_text import quoted

    return tuple(
        f"{key}={quoted(value) if isinstance(value, str) else value}"
        for key, value in flags.items()
        if value is not None
    )


def _tool_lists(flags: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Write flags that list tools as settings; one flag may name several."""
    from pod.permissions.rulebook import split_tools
    from pod.toml_text import toml_value

    return tuple(
        f"{key}={toml_value(tuple(tool for text in texts for tool in split_tools(text)))}"
        for key, texts in flags.items()
        if texts
    )
