"""Columns of a parquet file as NumPy arrays. Only here pyarrow is loaded, and only when such a file is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput, Misconfigured


def columns(path: Path, wanted: Sequence[str]) -> Mapping[str, NDArray[Any]]:
    """These columns whole; nothing in integer columns may be missing, in others a missing value is NaN.

    Raises InvalidInput for a file that is not parquet or has not these columns, Misconfigured without pyarrow.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise Misconfigured(
            f"{path.name}: parquet needs pyarrow, which is not installed: pip install 'slackwater[traces]'"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            missing = [name for name in wanted if name not in file.schema_arrow.names]
            if missing:
                there = ", ".join(file.schema_arrow.names)
                raise InvalidInput(f"{path}: no column {', '.join(missing)}; there are {there}")
            table = file.read(columns=list(wanted))
            return {name: _array(table[name], path, name) for name in wanted}
    except (arrow.ArrowException, OSError) as error:
        raise InvalidInput(f"{path}: cannot be read as parquet: {error}") from error


def _array(column: Any, path: Path, name: str) -> NDArray[Any]:
    found: NDArray[Any] = column.to_numpy()
    if found.dtype.kind not in "iuf":
        raise InvalidInput(f"{path}: column {name} holds {column.type}, no numbers")
    return found


def whole_numbers(values: NDArray[Any], path: Path, name: str) -> NDArray[np.int64]:
    """Raises InvalidInput where one is missing: a row without a time or a series cannot be placed."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInput(f"{path}: column {name} has rows without a value")
    return values.astype(np.int64)
