"""Streams columns of a delimited text file in batches. Only here pyarrow's CSV reader is loaded, when one is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.traces.readers.files import first_line, unpacked
from slackwater.traces.trace import Rows

BLOCK_BYTES = 8 * 2**20
_PLACE = re.compile(r"Row #(\d+)")
_REASON = re.compile(
    r"(?:CSV column #(\d+).*)?(?:conversion error to \w+: |Expected \d+ columns, got \d+: )(.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Columns of a file in their order; `text` are names, the others are numbers. A file may have more columns than
    these at its end. `header`: the first line has names and is skipped."""

    columns: Sequence[str]
    text: frozenset[str] = frozenset()
    delimiter: str = ","
    header: bool = False

    @property
    def description(self) -> str:
        return (";" if self.delimiter == ";" else ", ").join(self.columns)


@dataclass(slots=True)
class SeriesNumbers:
    """Numbers names in the order of their first appearance, over all batches and files."""

    numbers: dict[str, int] = field(default_factory=dict)

    def of(self, names: Sequence[str], codes: NDArray[Any]) -> Rows:
        """(rows,) the numbers of rows whose names are `names[codes]`."""
        known = np.array([self.numbers.setdefault(name, len(self.numbers)) for name in names], np.intp)
        return known[codes] if len(known) else np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A text column of a batch: `values[codes]`."""

    values: Sequence[str]
    codes: NDArray[Any]

    def texts(self) -> list[str]:
        return [self.values[code] for code in self.codes]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file, beginning with `line`. A missing number is NaN."""

    file: Path
    layout: FileColumns
    line: int
    numbers: Mapping[str, NDArray[np.float64]]
    names: Mapping[str, TextColumn]

    def whole(self, name: str) -> NDArray[np.int64]:
        """A column in which every row has a finite number, as times. Raises InvalidInput that names the line."""
        values = self.numbers[name]
        missing = np.flatnonzero(~np.isfinite(values))
        if len(missing):
            raise InvalidInput(
                f"{self.file}, line {self.line + int(missing[0])}, column {name}: "
                f"expected {self.layout.description}; found {'nothing' if np.isnan(values[missing[0]]) else 'infinity'}"
            )
        return values.astype(np.int64)


def batches(file: Path, layout: FileColumns, wanted: Sequence[str]) -> Iterator[Batch]:
    """The wanted columns in batches of about BLOCK_BYTES.

    Raises InvalidInput that names file, line and column, what is expected and what was found; Misconfigured without
    pyarrow.
    """
    try:
        import pyarrow as arrow
        from pyarrow import csv
    except ModuleNotFoundError:
        raise Misconfigured(
            f"{file.name}: this format needs pyarrow, which is not installed: pip install 'slackwater[traces]'"
        ) from None
    names = _column_names(file, layout)
    types = {
        name: arrow.dictionary(arrow.int32(), arrow.string()) if name in layout.text else arrow.float64()
        for name in wanted
    }
    with unpacked(file) as content:
        try:
            reader = csv.open_csv(
                arrow.PythonFile(content, "r"),
                read_options=csv.ReadOptions(
                    column_names=names, skip_rows=int(layout.header), block_size=BLOCK_BYTES, use_threads=False
                ),
                parse_options=csv.ParseOptions(delimiter=layout.delimiter),
                convert_options=csv.ConvertOptions(
                    column_types=types, include_columns=list(wanted), null_values=["", "NULL", "NaN", "nan"]
                ),
            )
            line = 1 + int(layout.header)
            for batch in reader:
                yield _batch(batch, file, layout, line, wanted)
                line += len(batch)
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise _refusal(file, layout, str(error)) from error


def _column_names(file: Path, layout: FileColumns) -> list[str]:
    """The layout's names, and one for each further column of the file. Raises InvalidInput."""
    line = first_line(file)
    count = len(line.split(layout.delimiter)) if line else 0
    if count < len(layout.columns):
        raise InvalidInput(f"{file}, line 1: expected {layout.description}; found {line[:80]!r}")
    return [*layout.columns, *(f"column {place}" for place in range(len(layout.columns) + 1, count + 1))]


def _batch(batch: Any, file: Path, layout: FileColumns, line: int, wanted: Sequence[str]) -> Batch:
    numbers, names = {}, {}
    for name in wanted:
        column = batch.column(name)
        if name not in layout.text:
            numbers[name] = column.to_numpy(zero_copy_only=False)
            continue
        if column.null_count:
            raise InvalidInput(f"{file}: {name} is empty in {column.null_count} rows; expected {layout.description}")
        names[name] = TextColumn(column.dictionary.to_pylist(), column.indices.to_numpy())
    return Batch(file, layout, line, numbers, names)


def _refusal(file: Path, layout: FileColumns, text: str) -> InvalidInput:
    place = _PLACE.search(text)
    line = f", line {place[1]}" if place else ""
    reason = _REASON.search(text)
    column = (
        f", column {layout.columns[int(reason[1])]}"
        if reason and reason[1] and int(reason[1]) < len(layout.columns)
        else ""
    )
    found = (reason[2] if reason else text).strip()
    return InvalidInput(f"{file}{line}{column}: expected {layout.description}; found {found[:120]}")
