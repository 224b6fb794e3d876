"""Plain tables on the terminal, without blanks at the ends of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def columns(*titles: str, right: Sequence[str] = (), wraps: str = "") -> Table:
    """A plain table, columns two spaces apart."""
    from rich.table import Table

    found = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, pad_edge=False)
    for title in titles:
        found.add_column(title, justify="right" if title in right else "left", no_wrap=title != wraps)
    return found


def put(console: Console, shown: Table | Text) -> None:
    """Print without blanks at the ends of lines."""
    with console.capture() as caught:
        console.print(shown)
    console.file.writelines(line.rstrip() + "\n" for line in caught.get().splitlines())
