"""A log of operations: the intention is written before sending, the outcome after; one JSON line each.

A `meant` line without a second line is an operation with unknown outcome. Lines are never rewritten, so the file is
consistent even if its writer was killed between two lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """The outcome of an operation. `UNKNOWN`: sent and never answered. `DROPPED`: discarded before it was sent."""

    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Key:
    """One operation: its kind (`report`, `observed`, `policy` …) and its unique name within the kind."""

    kind: str
    name: str


class Ledger:
    """Append-only. Survives a kill of the writing process: each line is one write(2) to an O_APPEND file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def meant(self, key: Key) -> None:
        """Record the intention. Call it before sending."""
        self._write({"kind": key.kind, "name": key.name, "is": "meant"})

    def came(self, key: Key, outcome: Outcome) -> None:
        """Record the outcome. A later outcome replaces an earlier one, except `acked`."""
        self._write({"kind": key.kind, "name": key.name, "is": outcome.value})

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: Mapping[str, str]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read(path: Path) -> dict[Key, Outcome]:
    """Every operation with its outcome; UNKNOWN without an answer."""
    found: dict[Key, Outcome] = {}
    for line in _lines(path):
        key, word = Key(line["kind"], line["name"]), line["is"]
        if word == "meant":
            found.setdefault(key, Outcome.UNKNOWN)
        elif found.get(key) is not Outcome.ACKED:
            found[key] = Outcome(word)
    return found


def _lines(path: Path) -> Iterator[dict[str, str]]:
    with path.open() as file:
        for text in file:
            if text.endswith("\n"):  # the last line of a killed writer may be half a line
                yield json.loads(text)
