"""What a compact worker has written so far."""

from collections.abc import Callable

from worker.compact.summary import Judged, judge


class Draft:
    """The summaries of one compact worker: the last one counts.

    A valid one outlives a later one that cannot be used.
    """

    def __init__(self, cap: int, count: Callable[[str], int]) -> None:
        self._cap = cap
        self._count = count
        self.last: Judged | None = None
        self.usable: Judged | None = None
        """The newest valid one."""

    def write(self, text: str) -> str:
        """Take *text* as the summary; return the answer to the call."""
        written = judge(text, cap=self._cap, count=self._count)
        self.last = written
        if written.is_valid:
            self.usable = written
        answer = f"Summary written: {written.tokens} of at most {self._cap} tokens."
        if written.problems:
            answer += f" It cannot be used as it is: {'; '.join(written.problems)}."
        if written.is_too_large:
            answer += " It is too large: call write_summary again with a shorter one."
        elif written.problems:
            answer += " Call write_summary again."
        return answer
