"""The journal on disk: one JSON line per record, appended; synced where a promise depends on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.durable import not_written, replace_synced, sync_directory
from slackwater.agent.domain.journal import Journal, replay


@dataclass(slots=True)
class LinesJournal:
    """`<agent dir>/journal`. The descriptor stays open; a torn last line of a crash is ignored and cut off."""

    path: Path
    _descriptor: int | None = None

    def load(self) -> Journal:
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return Journal()
        whole, _, torn = raw.rpartition(b"\n")
        if torn:
            os.truncate(self.path, len(raw) - len(torn))
        return replay(_records(whole.splitlines()))

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        content = b"".join(_line(record) for record in records)
        try:
            descriptor = self._open()
            before = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, content)
                if sync:
                    os.fsync(descriptor)
            except OSError:
                with suppress(OSError):  # half a line would take the next one with it
                    os.ftruncate(descriptor, before)
                raise
        except OSError as error:
            raise not_written(self.path, error) from error

    def replace(self, journal: Journal) -> None:
        self.close()
        replace_synced(self.path, b"".join(_line(record) for record in journal.records()))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o644)
            sync_directory(self.path.parent)
        return self._descriptor


def claims_in(path: Path) -> int:
    """How many knobs the journal holds claims on. Only reads: for looking at an instance that is not ours to touch."""
    try:
        return len(replay(_records(path.read_bytes().splitlines())))
    except OSError:
        return 0


def _write_all(descriptor: int, content: bytes) -> None:
    """A disk that has just become full takes a part and says so by the count alone."""
    while content:
        content = content[os.write(descriptor, content) :]


def _line(record: Mapping[str, str]) -> bytes:
    return json.dumps(dict(record), separators=(",", ":")).encode() + b"\n"


def _records(lines: Iterable[bytes]) -> Iterable[Mapping[str, str]]:
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:  # torn by a power cut; what follows was written after it and is whole
            continue
        if isinstance(record, dict) and {"op", "path", "field", "text"} <= record.keys():
            yield record
