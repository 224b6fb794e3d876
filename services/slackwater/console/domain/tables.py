"""Sorted tables in pages. Pure: the order and the page follow from the items and the query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from slackwater.model.errors import InvalidInput

T = TypeVar("T")
ROWS_PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class Heading(Generic[T]):
    """A column. `key` is what rows are sorted by; a row whose key is None comes last in both directions."""

    name: str
    title: str
    key: Callable[[T], Any]
    numeric: bool = True
    descending_first: bool = False

    @property
    def first_sort(self) -> str:
        """The query value of the first direction: the largest number and the newest time first, texts from A."""
        return f"-{self.name}" if self.numeric or self.descending_first else self.name


@dataclass(frozen=True, slots=True)
class TableQuery:
    """`sort` is a heading's name, with `-` in front for descending; empty for the table's own order."""

    sort: str = ""
    number: int = 1


@dataclass(frozen=True, slots=True)
class SortedTable(Generic[T]):
    """One page of `found` rows; `last` is the number of the last page."""

    headings: Sequence[Heading[T]]
    rows: Sequence[T]
    found: int
    number: int
    last: int
    sort: str = ""

    def direction(self, heading: Heading[T]) -> str:
        """The value of aria-sort: `ascending`, `descending`, or empty."""
        if self.sort.removeprefix("-") != heading.name:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"

    def next_sort(self, heading: Heading[T]) -> str:
        """The query value that a header links to: its first direction, or the opposite of the current one."""
        if self.sort != heading.first_sort:
            return heading.first_sort
        return heading.name if self.sort.startswith("-") else f"-{heading.name}"


def arrange(
    items: Iterable[T], headings: Sequence[Heading[T]], asked: TableQuery, per_page: int = ROWS_PER_PAGE
) -> SortedTable[T]:
    """The page of the items in the order asked for; equal rows keep their order. Raises InvalidInput."""
    rows = sort_rows(items, headings, asked.sort)
    start = (asked.number - 1) * per_page
    last = max(1, -(-len(rows) // per_page))
    return SortedTable(headings, rows[start : start + per_page], len(rows), asked.number, last, asked.sort)


def sort_rows(items: Iterable[T], headings: Sequence[Heading[T]], sort: str) -> list[T]:
    """The items in the order asked for. Raises InvalidInput for a column that the table lacks."""
    rows = list(items)
    if not sort:
        return rows
    heading = next((heading for heading in headings if heading.name == sort.removeprefix("-")), None)
    if heading is None:
        allowed = ", ".join(heading.name for heading in headings)
        raise InvalidInput(f"sort: {sort[:60]!r} is not a column; allowed: {allowed}, each with or without -")
    key = heading.key
    known = [row for row in rows if key(row) is not None]
    return [*sorted(known, key=key, reverse=sort.startswith("-")), *(row for row in rows if key(row) is None)]
