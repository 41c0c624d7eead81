"""The commands with a file, a session or a folder to work on: what they and their flags are."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from pod.cli.flags import (
    HERE,
    Instructions,
    Json,
    Quiet,
    RefreshPrompt,
    SessionId,
    Workplace,
)
from pod.cli.options import ExportFormat, Mode, Options
from pod.exits import Exit


def compact(
    session: SessionId,
    /,
    *,
    instructions: Instructions = "",
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
    refresh_prompt: RefreshPrompt = False,
    place: Workplace = HERE,
    quiet: Quiet = False,
) -> int:
    """Replace the older part of a session's context by a summary, now."""
    from pod.cli.compact import run_compact

    options = Options(
        manifest=place.manifest,
        settings=place.settings,
        cd=place.cd,
        resume=session,
        refresh_prompt=refresh_prompt,
        quiet=quiet,
    )
    return run_compact(
        options, instructions=instructions, mode=mode, is_dry=dry_run, at=at
    )


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


def import_session(
    file: Path,
    /,
    *,
    place: Workplace = HERE,
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

    return run_import(file, place, folder=dir_, as_json=json)


def export(
    session: SessionId,
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
    place: Workplace = HERE,
) -> int:
    """Write a session for people or for other programs."""
    from pod.cli.export import run_export

    return run_export(
        session, format_, place, output=output, force=force, redact=redact
    )


def check(
    file: Path | None = None,
    /,
    *,
    place: Workplace = HERE,
) -> int:
    """Check a manifest; print it whole, with where each value came from.

    Parameters
    ----------
    file
        The manifest, as with --manifest.
    """
    from pod.cli.check import run_check
    from pod.cli.failing import usage

    if file is not None and place.manifest is not None:
        return usage(f"two manifests, {file} and -m {place.manifest}: name one of them")
    return run_check(replace(place, manifest=file or place.manifest))


def doctor(
    *,
    place: Workplace = HERE,
    offline: Annotated[
        bool, Parameter(negative=(), help="Do not ask the provider's address.")
    ] = False,
    json: Json = False,
) -> int:
    """Say whether a run would start here, what is missing, and how to get it."""
    from pod.cli.doctor import run_doctor

    return run_doctor(place, as_json=json, is_offline=offline)


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
