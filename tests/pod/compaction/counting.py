"""Tokens that are easy to foresee: one for every four characters begun."""

from worker.items import Item
from worker.tokens import count_item


def count_text(text: str) -> int:
    return (len(text) + 3) // 4


class Quarters:
    def count(self, text: str) -> int:
        return count_text(text)


def count(item: Item) -> int:
    return count_item(item, Quarters())
