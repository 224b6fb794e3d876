"""Sorted tables: every row once, in order, unknown values last, and headers that turn the order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.console.domain.tables import Heading, TableQuery, arrange
from slackwater.model.errors import InvalidInput

Row = tuple[str, int | None]
NAME: Heading[Row] = Heading("name", "Name", lambda row: row[0], numeric=False)
SIZE: Heading[Row] = Heading("size", "Size", lambda row: row[1])
HEADINGS = (NAME, SIZE)
ROWS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.integers(-5, 5)), max_size=30)
SORTS = st.sampled_from(["", "name", "-name", "size", "-size"])


@given(ROWS, SORTS, st.integers(1, 7))
def test_the_pages_together_hold_every_row_once_in_one_order(rows: list[Row], sort: str, per_page: int) -> None:
    whole = arrange(rows, HEADINGS, TableQuery(sort), per_page=1000)
    pages = [arrange(rows, HEADINGS, TableQuery(sort, number), per_page) for number in range(1, whole.found + 2)]
    assert [row for page in pages for row in page.rows] == list(whole.rows)
    assert sorted(map(repr, whole.rows)) == sorted(map(repr, rows))
    assert all(bool(page.rows) == (page.number <= page.last) for page in pages if rows)


@given(ROWS)
def test_unknown_values_come_last_in_both_directions(rows: list[Row]) -> None:
    for sort in ("size", "-size"):
        sizes = [size for _, size in arrange(rows, HEADINGS, TableQuery(sort)).rows]
        known = [size for size in sizes if size is not None]
        assert sizes == [*sorted(known, reverse=sort.startswith("-")), *[None] * (len(sizes) - len(known))]


@given(ROWS, st.sampled_from(HEADINGS))
def test_a_header_turns_the_order_at_the_second_click(rows: list[Row], heading: Heading[Row]) -> None:
    table = arrange(rows, HEADINGS, TableQuery())
    assert table.direction(heading) == ""
    seen = []
    for _ in range(3):
        table = arrange(rows, HEADINGS, TableQuery(table.next_sort(heading)))
        seen.append(table.direction(heading))
    assert seen[0] == seen[2] == ("descending" if heading.numeric else "ascending")
    assert seen[1] not in (seen[0], "")


def test_a_column_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'price' is not a column; allowed: name, size"):
        arrange([("a", 1)], HEADINGS, TableQuery("price"))
