"""Names that are near to one that was asked for and is not there."""

import difflib
from collections.abc import Sequence

MOST_NEAR = 3


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Return up to three of *names*, the nearest to *name* first.

    Upper and lower case count as the same, and so does a name that differs in
    its extension only.
    """
    folded = name.casefold()
    stem = folded.rsplit(".", 1)[0]
    same = [n for n in names if n.casefold() == folded]
    alike = [n for n in names if stem and n.casefold().rsplit(".", 1)[0] == stem]
    close = difflib.get_close_matches(name, names, n=MOST_NEAR, cutoff=0.7)
    return list(dict.fromkeys([*same, *sorted(alike), *close]))[:MOST_NEAR]
