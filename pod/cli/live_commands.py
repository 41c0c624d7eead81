"""The commands around a Pod that stays: what they and their flags are."""

from typing import Annotated, Literal

from cyclopts import Parameter

from pod.cli.flags import Folder, Json, ManifestPath, Quiet, Settings, whole_number
from pod.cli.options import Options

Target = Annotated[
    str | None,
    Parameter(
        help="A Pod's name, its session or a part of it, or its socket;"
        " not needed where only one runs."
    ),
]


def serve(
    *,
    manifest: ManifestPath = None,
    settings: Settings = (),
    cd: Folder = None,
    session: Annotated[
        str | None,
        Parameter(
            name=["--session", "--resume"],
            metavar="SESSION",
            help="Go on with this session: its id, or a part of it.",
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
    refresh_prompt: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Take the manifest's system prompt in place of the session's own.",
        ),
    ] = False,
    listen: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            metavar="ADDRESS",
            help="Where clients connect: unix:///path/to.sock, or stdio:// for the"
            " program that starts it. Without it a socket in the runtime folder.",
        ),
    ] = (),
    quiet: Quiet = False,
) -> int:
    """Run a Pod that stays: other programs drive it and listen to it.

    It prints where it listens, one address a line, and ends by a signal or by
    pod stop. See docs/protocol.md.
    """
    from pod.cli.failing import UsageError, usage
    from pod.cli.serve import run_serve

    if session is not None and continue_:
        return usage("--session and --continue exclude each other")
    options = Options(
        manifest=manifest,
        settings=settings,
        cd=cd,
        resume=session,
        newest=continue_,
        refresh_prompt=refresh_prompt,
        quiet=quiet,
    )
    try:
        return run_serve(options, listen)
    except UsageError as error:
        return usage(str(error))


def attach(
    target: Target = None,
    /,
    *,
    from_seq: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            help="Show what was, too, from this event on; 0 is the beginning.",
        ),
    ] = None,
    types: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            metavar="TYPES",
            help="Only events of these types (docs/events.md), separated by commas.",
        ),
    ] = (),
    json: Json = False,
) -> int:
    """Listen to a Pod that runs, until it ends."""
    from pod.cli.attach import run_attach

    names = tuple(name for text in types for name in text.replace(",", " ").split())
    return run_attach(target, from_seq=from_seq, types=names, as_json=json)


def send(
    target: Annotated[str, Parameter(help="As with pod attach.")],
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    steer: Annotated[
        bool,
        Parameter(
            negative=(), help="Say it to the run under way, with its next request."
        ),
    ] = False,
    follow_up: Annotated[
        bool,
        Parameter(negative=(), help="Run it when the run under way is over."),
    ] = False,
    wait: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Wait for the run to end: print its answer, and exit with its code.",
        ),
    ] = False,
) -> int:
    """Send a prompt to a Pod that runs.

    Parameters
    ----------
    text
        What to do; - reads it from standard input.
    """
    from pod.cli.failing import usage
    from pod.cli.send import run_send

    if steer and follow_up:
        return usage("--steer and --follow-up exclude each other")
    how: Literal["prompt", "steer", "follow_up"] = (
        "steer" if steer else "follow_up" if follow_up else "prompt"
    )
    return run_send(target, text, how=how, wait=wait)


def pause(target: Target = None, /) -> int:
    """Stop a Pod's run so that it can be resumed. Returns when it stands: tools are awaited."""
    from pod.cli.send import run_pause

    return run_pause(target)


def resume(
    target: Target = None,
    /,
    *,
    wait: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Wait for the run to end: print its answer, and exit with its code.",
        ),
    ] = False,
) -> int:
    """Go on with a run that was paused, or that a crash cut off."""
    from pod.cli.send import run_resume

    return run_resume(target, wait=wait)


def interrupt(target: Target = None, /) -> int:
    """End what a Pod does, for good; the Pod stays. Returns when it is over."""
    from pod.cli.send import run_interrupt

    return run_interrupt(target)


def answer(
    target: Annotated[str, Parameter(help="As with pod attach.")],
    call: Annotated[str, Parameter(help="The call's id, as pod attach shows it.")],
    decision: Literal["allow", "deny"],
    message: str = "",
    /,
) -> int:
    """Say whether a call that waits for a permission may run.

    Parameters
    ----------
    message
        Why not; the model is told.
    """
    from pod.cli.send import run_answer

    return run_answer(target, call, allow=decision == "allow", message=message)


def stop(
    target: Target = None,
    /,
    *,
    now: Annotated[
        bool,
        Parameter(negative=(), help="End the run under way, too; it can be resumed."),
    ] = False,
) -> int:
    """End a Pod: when its run is over, or now. Returns when it has ended."""
    from pod.cli.send import run_stop

    return run_stop(target, now=now)


def ps(*, json: Json = False) -> int:
    """List the Pods that run."""
    from pod.cli.ps import run_ps

    return run_ps(as_json=json)
