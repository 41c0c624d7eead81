"""Items as entries of a path, and compactions of it."""

from collections.abc import Sequence

from msgspec.structs import replace

from pod.compaction.cut import Cut, NoCut, find_cut
from pod.entries import AnyEntry, Compaction, ItemEntry, Known
from pod.view import View
from tests.pod.compaction.counting import count
from tests.pod.logs import chain
from worker.items import Item

SUMMARY = Compaction(
    compaction_id="k",
    reason="manual",
    mode="mechanical",
    summary="What was done.",
    first_kept=None,
    compacted_from="",
    tokens_before=0,
    tokens_after=0,
)


def entries(items: Sequence[Item]) -> list[Known]:
    return [ItemEntry(item=item) for item in items]


def path_of(*parts: Item | Known) -> list[Known]:
    """Return a path of items and other entries; they are named e1, e2, …."""
    return chain(
        *(part if isinstance(part, Known) else ItemEntry(item=part) for part in parts)
    )


def cut_of(
    path: Sequence[AnyEntry], *, retained: int = 100, room: int | None = None
) -> Cut | NoCut:
    return find_cut(
        View(path).window(), retained_tokens=retained, room=room, count=count
    )


def compaction_of(cut: Cut, path: Sequence[AnyEntry], **fields: object) -> Compaction:
    """Return what is committed for a cut of *path*."""
    done = replace(
        SUMMARY,
        first_kept=cut.first_kept,
        dropped_reasoning=cut.dropped_reasoning,
        compacted_from=path[-1].id,
    )
    return replace(done, **fields)


def compacted(path: Sequence[Known], cut: Cut, **fields: object) -> list[Known]:
    """Return *path* with the clips and the compaction of *cut* at its end."""
    added: list[Known] = [*cut.clips]
    if cut.index:
        added.append(compaction_of(cut, path, **fields))
    return chain(*path, *added)
