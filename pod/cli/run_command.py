"""The command ``pod run``: what it and its flags are."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from pod.cli.flags import HERE, Quiet, RefreshPrompt, Workplace, whole_number
from pod.cli.options import Options, OutputFormat, PermissionMode


def run(
    prompt: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    place: Workplace = HERE,
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
    refresh_prompt: RefreshPrompt = False,
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
            name=["--max-requests", "--max-turns"],
            converter=whole_number,
            help="Most calls to the model.",
        ),
    ] = None,
    max_total_tokens: Annotated[
        int | None,
        Parameter(
            converter=whole_number, help="Most tokens, prompts and answers together."
        ),
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
            manifest=place.manifest,
            settings=place.settings + _overrides(flags) + _tool_lists(tools),
            cd=place.cd,
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
