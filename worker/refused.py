"""The provider's own compaction block that it does not take back."""

from collections.abc import Sequence

from worker.items import Item, Native, SystemText


class RefusedBlock:
    """Remembers the block that was refused last, so that it is not sent again.

    For one provider, over as many turns as there are; a block made later is tried.
    """

    def __init__(self) -> None:
        self._native: Native | None = None

    def learn(self, items: Sequence[Item]) -> bool:
        """Take in that the block of *items* was refused; whether there is one."""
        native = _block_in(items)
        self._native = native or self._native
        return native is not None

    def is_in(self, items: Sequence[Item]) -> bool:
        """Whether *items* have that block."""
        native = _block_in(items)
        return native is not None and native == self._native


def _block_in(items: Sequence[Item]) -> Native | None:
    """Return the block of the leading items: there is one compaction, so one at most."""
    for item in items:
        if not isinstance(item, SystemText):
            break
        if item.native is not None:
            return item.native
    return None
