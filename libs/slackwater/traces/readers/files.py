"""From what was given with --trace to the files that it stands for."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO, cast

from slackwater.model.errors import InvalidInput


def files_of(path: Path, pattern: str) -> Sequence[Path]:
    """The file itself, or all files of a folder that match, by name. Raises InvalidInput."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidInput(f"--trace: {path} does not exist", field="trace")
    found = sorted(path.glob(pattern))
    if not found:
        raise InvalidInput(f"--trace: expected {pattern} in {path}; found {_shown(path)}", field="trace")
    return found


def one_file_of(path: Path, pattern: str) -> Path:
    """As `files_of`, for formats that are one file."""
    return one_of(files_of(path, pattern))


def one_of(files: Sequence[Path]) -> Path:
    """The only one of the files. Raises InvalidInput if there are several."""
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise InvalidInput(
            f"--trace: {files[0].parent} has several files of this trace: {names}; name one", field="trace"
        )
    return files[0]


MOST_LINE_CHARACTERS = 1 << 20


@contextmanager
def opened(path: Path) -> Iterator[Iterator[str]]:
    """The lines of a text, unpacked if the name ends with .gz, without the mark that spreadsheets put first. Raises
    InvalidInput, also while it is read: a megabyte of gzip may be one line of a gigabyte."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
                yield _lines(text, path)
        else:
            with path.open(encoding="utf-8-sig", newline="") as text:
                yield _lines(text, path)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: is not text in UTF-8: {error}") from error


def _lines(text: TextIO, path: Path) -> Iterator[str]:
    place = 0
    while line := text.readline(MOST_LINE_CHARACTERS):
        place += 1
        if len(line) == MOST_LINE_CHARACTERS and not line.endswith(("\n", "\r")):
            raise InvalidInput(f"{path}, line {place}: is longer than {MOST_LINE_CHARACTERS} characters")
        yield line


_HEAD = 4096
_MOST_SHOWN = 5
PACKED = (".tar.gz", ".tgz")


@contextmanager
def unpacked(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a plain file, a .gz, or the first .csv of a .tar.gz. Raises InvalidInput, also while it is read."""
    try:
        if path.name.endswith(PACKED):
            with tarfile.open(path, "r:gz") as archive:
                member = next((one for one in archive if one.isfile() and one.name.endswith(".csv")), None)
                extracted = None if member is None else archive.extractfile(member)
                if extracted is None:
                    raise InvalidInput(f"{path}: expected a .csv in the archive; found none")
                with extracted:
                    yield extracted
        elif path.suffix == ".gz":
            with gzip.open(path, "rb") as packed:
                yield cast(IO[bytes], packed)
        else:
            with path.open("rb") as plain:
                yield plain
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise InvalidInput(f"{path}: cannot be read: {error}") from error


def first_line(path: Path) -> str:
    """The first line of a text file, at most 4 KiB; empty for anything else."""
    try:
        with unpacked(path) as content:
            head = content.read(_HEAD)
    except InvalidInput:
        return ""
    try:
        return head.partition(b"\n")[0].decode("utf-8-sig").strip("\r")
    except UnicodeDecodeError:
        return ""


def matching(path: Path, *patterns: str) -> Sequence[Path]:
    """The file itself if its name matches, or all files below a folder that match, by name; empty if there are none."""
    candidates = [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    return [
        candidate
        for candidate in candidates
        if candidate.is_file() and any(candidate.match(pattern) for pattern in patterns)
    ]


def required(path: Path, expected: str, *patterns: str) -> Sequence[Path]:
    """As `matching`, but a file that was named counts whatever its name. Raises InvalidInput that says what is expected
    and what the folder has."""
    if path.is_file():
        return [path]
    if not path.exists():
        raise InvalidInput(f"--trace: {path} does not exist", field="trace")
    found = matching(path, *patterns)
    if not found:
        raise InvalidInput(f"--trace: expected {expected} in {path}; found {_shown(path)}", field="trace")
    return found


def _shown(folder: Path) -> str:
    names = sorted(one.name for one in folder.iterdir())
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more if names else "nothing"
