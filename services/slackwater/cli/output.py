"""Output of the reading commands: tables, JSON and YAML to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from slackwater.model.errors import InvalidInput, SlackwaterError
from slackwater.model.quantities import format_cores, format_memory

UNKNOWN = "-"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Item = Mapping[str, Any]


class Format(StrEnum):
    """`json` and `yaml` are the API's object, unchanged."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column: a function from an API object to its text; `right` aligns numbers; `wide` hides it from `table`."""

    title: str
    text: Callable[[Item], str]
    right: bool = False
    wide: bool = False


@contextlib.contextmanager
def errors_to_stderr() -> Iterator[None]:
    """Print one line per Slackwater error; exit status 2 if the caller must correct the command, else 1."""
    import typer

    try:
        yield
    except InvalidInput as error:
        message(f"slackwater: {error.message}")
        raise typer.Exit(2) from None
    except SlackwaterError as error:
        message(f"slackwater: {error.message}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def message(text: str) -> None:
    """Print a message to stderr."""
    print(text, file=sys.stderr, flush=True)


def colours_wanted() -> bool:
    """Only on a terminal, and never with NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_object(answer: Any, form: Format) -> None:
    """The API's object as JSON or YAML."""
    if form is Format.YAML:
        import yaml

        sys.stdout.write(yaml.safe_dump(_plain(answer), sort_keys=False, allow_unicode=True))
    else:
        sys.stdout.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _plain(answer: Any) -> Any:
    """A copy made of plain dicts and lists, because YAML does not represent subclasses."""
    match answer:
        case dict():
            return {name: _plain(value) for name, value in answer.items()}
        case list():
            return [_plain(value) for value in answer]
    return answer


def table(items: Sequence[Item], columns: Sequence[TableColumn], *, wide: bool, headers: bool) -> list[str]:
    """Lines of a plain table, columns two spaces apart, no trailing blanks. On a terminal that is narrower, cells that
    do not fit stand below their row, each with its title; nothing is cut.
    """
    shown = [column for column in columns if wide or not column.wide]
    rows = [[column.text(item) for column in shown] for item in items]
    if headers:
        rows.insert(0, [column.title for column in shown])
    widths = [max((len(row[index]) for row in rows), default=0) for index in range(len(shown))]
    width = shutil.get_terminal_size((ENDLESS, 24)).columns if sys.stdout.isatty() else ENDLESS
    fitting = _fitting(widths, width)
    lines: list[str] = []
    for place, row in enumerate(rows):
        lines.append("  ".join(_cells(row[:fitting], shown[:fitting], widths[:fitting])).rstrip())
        if not (headers and place == 0):
            rest = [f"{column.title} {cell}" for column, cell in zip(shown[fitting:], row[fitting:], strict=True)]
            lines += textwrap.wrap("  ".join(rest), width, initial_indent=BELOW, subsequent_indent=BELOW)
    return lines


BELOW = " " * 4
ENDLESS = 10**6
"""The width of what is no terminal: a row is one line, for other programs."""


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many columns from the left stand beside each other, at least one."""
    used = 0
    for place, column in enumerate(widths):
        used += column + 2
        if used - 2 > width and place:
            return place
    return len(widths)


def _cells(row: Sequence[str], columns: Sequence[TableColumn], widths: Sequence[int]) -> Iterator[str]:
    for cell, column, width in zip(row, columns, widths, strict=True):
        yield cell.rjust(width) if column.right else cell.ljust(width)


def cpu(milli: int | None) -> str:
    return UNKNOWN if milli is None else format_cores(milli)


def memory(count: int | None) -> str:
    return UNKNOWN if count is None else format_memory(count)


def ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1%}"


def amount(value: int, unit: str) -> str:
    """A number with its unit."""
    if unit.startswith("milli"):
        return f"{value / 1000:.10g} core" + ("" if abs(value) == 1000 else "s")
    return format_memory(value) if unit.startswith("byte") else f"{value} {unit}".strip()


def short(source: str) -> str:
    """An id by its last eight digits (the first encode a time and repeat within a minute); other text in full."""
    return f"…{source[-8:]}" if _UUID.fullmatch(source) else source


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def clock_time(text: str | None) -> str:
    """A time as UTC to the second."""
    return UNKNOWN if text is None else parse_time(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def age(text: str | None, now: datetime) -> str:
    """The age in the largest fitting unit: `4s`, `3m`, `2h`, `5d`."""
    if text is None:
        return UNKNOWN
    return lasted(now - parse_time(text))


def lasted(span: timedelta) -> str:
    """A duration in the largest fitting unit."""
    seconds = max(0, int(span.total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
