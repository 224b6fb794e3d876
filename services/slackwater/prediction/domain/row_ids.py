"""Dense row ids for names, so that data is stored in columns. Freed row ids are reused.

Models use row ids only (decision 0031): the models must forget a row id before it is reused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SEPARATOR = "\x1f"


class RowIds:
    """Maps names to row ids. The last freed id is reused first, so that a replay assigns the same ones."""

    def __init__(self, names: Sequence[str | None] = (), free: Sequence[int] = ()) -> None:
        self.names: list[str | None] = list(names)
        self.free: list[int] = list(free)
        self._of = {name: number for number, name in enumerate(self.names) if name is not None}

    def __len__(self) -> int:
        return len(self._of)

    def find(self, name: str) -> int | None:
        return self._of.get(name)

    def allocate(self, name: str) -> int:
        """Returns the row id of a name; assigns one if it has none."""
        number = self._of.get(name)
        if number is not None:
            return number
        if self.free:
            number = self.free.pop()
            self.names[number] = name
        else:
            number = len(self.names)
            self.names.append(name)
        self._of[name] = number
        return number

    def release(self, numbers: Iterable[int]) -> None:
        """Frees these row ids in this order; free ones are ignored."""
        for number in numbers:
            name = self.names[number]
            if name is not None:
                del self._of[name]
                self.names[number] = None
                self.free.append(number)

    def name(self, number: int) -> str:
        """Returns the name of a row id. Raises KeyError for a free one."""
        name = self.names[number]
        if name is None:
            raise KeyError(number)
        return name


def joined(*parts: str) -> str:
    """Joins several parts into one name."""
    return SEPARATOR.join(parts)


def parts_of(name: str) -> list[str]:
    return name.split(SEPARATOR)
