"""The journal on disk: one JSON line per record, appended; synced where a promise depends on it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.boot_id import read_boot_id
from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.durable import not_written, replace_file, sync_directory, write_all
from slackwater.agent.domain.journal import Journal, boot_record, replay
from slackwater.model.json_text import parse_json_text


@dataclass(slots=True)
class LinesJournal:
    """`<agent dir>/journal`. The descriptor stays open; a torn last line of a crash is ignored and cut off."""

    path: Path
    disk: DiskFiles = OS_FILES
    boot_id: str = ""
    """Of the kernel that runs; empty: unknown."""
    _descriptor: int | None = None
    _ends_torn: bool = False
    """Whether the torn line could not be cut off: the next record then begins a line of its own."""

    def load(self) -> Journal:
        try:
            raw = self.disk.read(self.path)
        except FileNotFoundError:
            return Journal()
        whole, _, torn = raw.rpartition(b"\n")
        if torn:
            self._cut_off(len(raw) - len(torn))
        return replay(_records(whole.splitlines()), self.boot_id)

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        content = b"\n" * self._ends_torn + b"".join(_line(record) for record in records)
        try:
            descriptor = self._open()
            before = self.disk.size(descriptor)
            try:
                write_all(descriptor, content, self.disk)
                if sync:
                    self.disk.sync(descriptor)
            except OSError:
                with suppress(OSError):  # half a line would take the next one with it
                    self.disk.truncate(descriptor, before)
                raise
        except OSError as error:
            raise not_written(self.path, error) from error
        self._ends_torn = False

    def replace(self, journal: Journal) -> None:
        self.close()
        boot = [boot_record(self.boot_id)] if self.boot_id else []
        replace_file(self.path, b"".join(_line(record) for record in (*boot, *journal.records())), self.disk)
        self._ends_torn = False

    def close(self) -> None:
        if self._descriptor is not None:
            self.disk.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self.disk.make_directory(self.path.parent)
            self._descriptor = self.disk.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            sync_directory(self.path.parent, self.disk)
        return self._descriptor

    def _cut_off(self, size: int) -> None:
        """A disk that refuses it (read-only, say) does not keep the agent from restoring."""
        try:
            descriptor = self.disk.open(self.path, os.O_WRONLY)
            try:
                self.disk.truncate(descriptor, size)
            finally:
                self.disk.close(descriptor)
        except OSError:
            self._ends_torn = True


def claims_in(path: Path) -> int:
    """How many knobs the journal holds claims on in this boot. Only reads: for looking at an instance that is not ours
    to touch."""
    try:
        return len(replay(_records(path.read_bytes().splitlines()), read_boot_id()))
    except OSError:
        return 0


def _line(record: Mapping[str, str]) -> bytes:
    return json.dumps(dict(record), separators=(",", ":")).encode() + b"\n"


def _records(lines: Iterable[bytes]) -> Iterable[Mapping[str, str]]:
    for line in lines:
        try:
            record = parse_json_text(line)
        except ValueError:  # torn by a power cut; what follows was written after it and is whole
            continue
        if isinstance(record, dict) and {"op", "path", "field", "text"} <= record.keys():
            yield record
