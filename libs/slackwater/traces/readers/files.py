"""From what was given with --trace to the files that it stands for."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from slackwater.model.errors import InvalidInput


def files_of(path: Path, pattern: str) -> Sequence[Path]:
    """The file itself, or all files of a folder that match, by name. Raises InvalidInput."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidInput(f"--trace: {path} does not exist", field="trace")
    found = sorted(path.glob(pattern))
    if not found:
        raise InvalidInput(f"--trace: no file {pattern} in {path}", field="trace")
    return found


def one_file_of(path: Path, pattern: str) -> Path:
    """As `files_of`, for formats that are one file."""
    found = files_of(path, pattern)
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise InvalidInput(f"--trace: {path} holds several files {pattern}: {names}; name one", field="trace")
    return found[0]


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Text, unpacked if the name ends with .gz, without the mark that spreadsheets put first. Raises InvalidInput, also
    while it is read."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
                yield text
        else:
            with path.open(encoding="utf-8-sig", newline="") as text:
                yield text
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: is not text in UTF-8: {error}") from error
