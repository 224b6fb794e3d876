"""What was meant and what came of it: intention is written before sending, outcome after; one JSON line each.

A line that says `meant` without a second line is an operation whose end nobody knows. Nothing is ever rewritten, so
the file is the truth even when its writer was killed between two lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """What the writer was told. `UNKNOWN`: sent, and never answered. `DROPPED`: given up before it was sent."""

    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Key:
    """One operation: its kind (`report`, `observed`, `policy` …) and what makes it unique within the kind."""

    kind: str
    name: str


class Ledger:
    """Append-only. Safe against the death of the writing process: each line is one write(2) of an O_APPEND file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def meant(self, key: Key) -> None:
        """To be called before anything leaves."""
        self._write({"kind": key.kind, "name": key.name, "is": "meant"})

    def came(self, key: Key, outcome: Outcome) -> None:
        """To be called when the outcome is known; a later word stands above an earlier one, except above `acked`."""
        self._write({"kind": key.kind, "name": key.name, "is": outcome.value})

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: Mapping[str, str]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read(path: Path) -> dict[Key, Outcome]:
    """Every operation with its outcome; one that was meant and never answered is UNKNOWN."""
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
