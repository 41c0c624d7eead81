"""What an import counts: what came, what was carried over, what was not."""

from msgspec import Struct


class Tally(Struct):
    """Counts of a file. *losses* names what is not carried over, or was changed.

    *lines* that are JSON objects (records, whatever kind), *bad_lines* that are
    not, *parallel* responses with several calls, *unanswered* calls that have no
    result in the file.
    """

    lines: int = 0
    bad_lines: int = 0
    user_messages: int = 0
    answers: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    tool_errors: int = 0
    parallel: int = 0
    unanswered: int = 0
    thinking: int = 0
    images: int = 0
    compactions: int = 0
    branch_summaries: int = 0
    side: int = 0
    losses: dict[str, int] = {}

    def lose(self, name: str, count: int = 1) -> None:
        if count:
            self.losses[name] = self.losses.get(name, 0) + count
