"""Dense numbers for names, so that what is known of each lies in columns; a number that was freed is given again.

Models take numbers only (docs/decisions/0028): who gives them must tell the models to forget before one is given anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SEPARATOR = "\x1f"


class Numbers:
    """Which number belongs to which name. The last freed is given first, so that a replay gives the same ones."""

    def __init__(self, names: Sequence[str | None] = (), free: Sequence[int] = ()) -> None:
        self.names: list[str | None] = list(names)
        self.free: list[int] = list(free)
        self._of = {name: number for number, name in enumerate(self.names) if name is not None}

    def __len__(self) -> int:
        return len(self._of)

    def find(self, name: str) -> int | None:
        return self._of.get(name)

    def take(self, name: str) -> int:
        """The number of a name; a new one if it has none."""
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

    def give_back(self, numbers: Iterable[int]) -> None:
        """In this order; those that belong to nobody are left alone."""
        for number in numbers:
            name = self.names[number]
            if name is not None:
                del self._of[name]
                self.names[number] = None
                self.free.append(number)

    def name(self, number: int) -> str:
        """Raises KeyError for a number that belongs to nobody."""
        name = self.names[number]
        if name is None:
            raise KeyError(number)
        return name


def joined(*parts: str) -> str:
    """A name of several parts."""
    return SEPARATOR.join(parts)


def parts_of(name: str) -> list[str]:
    return name.split(SEPARATOR)
