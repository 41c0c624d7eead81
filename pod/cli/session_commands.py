"""The commands of ``pod session``: what they and their flags are."""

from typing import Annotated

from cyclopts import App, Parameter

from pod.cli.flags import (
    HERE,
    Instructions,
    Json,
    Quiet,
    SessionId,
    Workplace,
    whole_number,
)

session_app = App(
    name="session", help="Look at sessions, move about in them, and repair them."
)


@session_app.command(name="list")
def list_sessions(
    *,
    place: Workplace = HERE,
    all_: Annotated[
        bool,
        Parameter(
            name=["--all", "-a"],
            negative=(),
            help="Those of all folders, not only of the working folder.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """List sessions, the newest first."""
    from pod.cli.sessions import list_all

    return list_all(place, everywhere=all_, as_json=json)


@session_app.command
def show(
    session: SessionId,
    /,
    *,
    place: Workplace = HERE,
    compaction: Annotated[
        int | None,
        Parameter(
            converter=whole_number,
            help="Only the receipt of this compaction: 1 is the first, failed ones count.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Show what is in a session."""
    from pod.cli.sessions import show_one

    return show_one(session, place, compaction=compaction, as_json=json)


@session_app.command
def tree(
    session: SessionId,
    /,
    *,
    place: Workplace = HERE,
    all_: Annotated[
        bool,
        Parameter(
            name=["--all", "-a"],
            negative=(),
            help="Every entry: nothing is folded, what only programs need included.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Draw a session's tree: its branches, and where it stands."""
    from pod.cli.tree import show_tree

    return show_tree(session, place, everything=all_, as_json=json)


@session_app.command
def goto(
    session: SessionId,
    entry: str,
    /,
    *,
    summarize: Annotated[
        bool | None,
        Parameter(
            help="Summarise the branch that is left for the one that is gone to;"
            " without it as [branch_summary] enabled says.",
        ),
    ] = None,
    instructions: Instructions = "",
    replace_instructions: Annotated[
        bool,
        Parameter(
            negative=(), help="The instructions take the place of the usual order."
        ),
    ] = False,
    label: Annotated[
        str,
        Parameter(
            metavar="NAME", help="A name for the summary, or for the entry without one."
        ),
    ] = "",
    place: Workplace = HERE,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Go on from another entry of a session: its next run begins there.

    To a message of the user's means before it: its text is printed, to be
    changed and given again.

    Parameters
    ----------
    entry
        An entry's id or what it begins with, a label, or root: pod session tree
        has them.
    """
    from pod.cli.branches import Asked, go

    asked = Asked(
        session=session,
        entry=entry,
        summarize=summarize,
        instructions=instructions,
        replace_instructions=replace_instructions,
        label=label,
        quiet=quiet,
        as_json=json,
    )
    return go(asked, place)


@session_app.command(name="fork")
def fork_session(
    session: SessionId,
    entry: str | None = None,
    /,
    *,
    place: Workplace = HERE,
    json: Json = False,
) -> int:
    """Copy a session up to an entry into one of its own; print its id.

    Parameters
    ----------
    entry
        As with goto; without it where the session stands. To a message of the
        user's means before it.
    """
    from pod.cli.branches import fork

    return fork(session, entry, place, as_json=json)


@session_app.command
def label(
    session: SessionId,
    entry: str,
    name: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    place: Workplace = HERE,
) -> int:
    """Give an entry of a session a name.

    Parameters
    ----------
    entry
        As with goto.
    name
        The label; an empty one takes it away.
    """
    from pod.cli.branches import label as set_label

    return set_label(session, entry, name, place)


@session_app.command
def repair(
    session: SessionId,
    /,
    *,
    place: Workplace = HERE,
) -> int:
    """Repair a damaged session log; the damaged file is kept beside it."""
    from pod.cli.sessions import repair_one

    return repair_one(session, place)
