"""Tables of the commands at any width: no cell is truncated.

If a row is wider than the terminal, the cells that do not fit are printed below it, each with its title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

BETWEEN = 2
"""Blanks between columns."""
LEAST_WRAPPED = 16
"""Least width of the column that wraps; with less it moves below the row."""
BELOW = "    "


@dataclass(slots=True)
class Grid:
    """Rows before the width is known. `wraps` is the title of the column that holds sentences; `spared` are columns
    that only draw what other columns say, and are left out if they do not fit.
    """

    titles: tuple[str, ...]
    right: Sequence[str] = ()
    wraps: str | None = None
    spared: Sequence[str] = ()
    rows: list[tuple[Text, ...]] = field(default_factory=list)

    def add_row(self, *cells: str | Text) -> None:
        from rich.text import Text

        self.rows.append(tuple(cell if isinstance(cell, Text) else Text(cell) for cell in cells))

    def width_of(self, place: int) -> int:
        """The width of the widest cell, the title included."""
        from rich.cells import cell_len

        return max([cell_len(self.titles[place]), *(row[place].cell_len for row in self.rows)])

    def least(self, place: int) -> int:
        """The least width that truncates nothing."""
        width = self.width_of(place)
        return min(width, LEAST_WRAPPED) if self.titles[place] == self.wraps else width


def columns(*titles: str, right: Sequence[str] = (), wraps: str | None = None, spared: Sequence[str] = ()) -> Grid:
    """A plain table, columns two spaces apart."""
    return Grid(titles, right, wraps, spared)


def put(console: Console, shown: Grid) -> None:
    """Print without trailing blanks."""
    every = tuple(range(len(shown.titles)))
    if _needed(shown, every) > console.width:
        every = tuple(place for place in every if shown.titles[place] not in shown.spared)
    beside = _fitting(shown, every, console.width)
    lines = _table_lines(console, shown, every) if beside == every else _folded(console, shown, every, beside)
    console.file.writelines(line.rstrip() + "\n" for line in lines)


def _needed(shown: Grid, places: Sequence[int]) -> int:
    return sum(shown.least(place) + BETWEEN for place in places) - BETWEEN


def _fitting(shown: Grid, places: Sequence[int], width: int) -> tuple[int, ...]:
    """All columns if they fit; else as many from the left as fit, at least the first, without the column of
    sentences.
    """
    if _needed(shown, places) <= width:
        return tuple(places)
    fitting: list[int] = []
    for place in places:
        if fitting and (shown.titles[place] == shown.wraps or _needed(shown, [*fitting, place]) > width):
            break
        fitting.append(place)
    return tuple(fitting)


def _table_lines(console: Console, shown: Grid, places: Sequence[int]) -> list[str]:
    from rich.table import Table

    table = Table(box=None, padding=(0, BETWEEN, 0, 0), show_edge=False, pad_edge=False)
    for place in places:
        title, wraps = shown.titles[place], shown.titles[place] == shown.wraps
        side: Literal["left", "right"] = "right" if title in shown.right else "left"
        table.add_column(title, justify=side, no_wrap=not wraps, overflow="fold")
    for row in shown.rows:
        table.add_row(*(row[place] for place in places))
    return _printed(console, table)


def _folded(console: Console, shown: Grid, places: Sequence[int], beside: Sequence[int]) -> Iterator[str]:
    """One line per row with the cells that fit; below it the rest, wrapped between words."""
    from rich.text import Text

    heads = tuple(Text(title) for title in shown.titles)
    yield from _printed(console, _aligned(shown, beside, heads, style="bold"))
    for row in shown.rows:
        yield from _printed(console, _aligned(shown, beside, row))
        rest = [place for place in places if place not in beside and row[place].plain.strip()]
        parts = [Text.assemble((f"{shown.titles[place]} ".lstrip(), "bold"), row[place]) for place in rest]
        text = Text(" " * BETWEEN).join(parts)
        lines = text.wrap(console, max(1, console.width - len(BELOW)), overflow="fold") if parts else ()
        for line in lines:
            yield from _printed(console, Text.assemble(BELOW, line))


def _aligned(shown: Grid, places: Sequence[int], cells: Sequence[Text], style: str = "") -> Text:
    from rich.text import Text

    line = Text(style=style)
    for place in places:
        blanks = " " * (shown.width_of(place) - cells[place].cell_len)
        line.append(blanks if shown.titles[place] in shown.right else "")
        line.append_text(cells[place])
        line.append("" if shown.titles[place] in shown.right else blanks)
        line.append(" " * BETWEEN)
    line.rstrip()
    return line


def _printed(console: Console, shown: Table | Text) -> list[str]:
    """The rendered lines. A text is printed at its own width, because rich would crop it."""
    from rich.text import Text

    with console.capture() as caught:
        console.print(shown, soft_wrap=isinstance(shown, Text))
    return caught.get().splitlines()
