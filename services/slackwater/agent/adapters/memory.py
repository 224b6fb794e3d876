"""Journal and ledger in memory: for simulated machines, whose values end with the process anyway, and for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.agent.domain.journal import Journal, replay
from slackwater.agent.domain.ledger import EvictionRecord


@dataclass(slots=True)
class MemoryJournal:
    """Keeps the records as a disk would."""

    records: list[Mapping[str, str]] = field(default_factory=list)

    def load(self) -> Journal:
        return replay(self.records)

    def append(self, records: Sequence[Mapping[str, str]], *, sync: bool) -> None:
        self.records.extend(records)

    def replace(self, journal: Journal) -> None:
        self.records = list(journal.records())

    def close(self) -> None:
        """Nothing to close."""


@dataclass(slots=True)
class MemoryLedger:
    """Keeps the eviction records as a disk would."""

    records: dict[str, EvictionRecord] = field(default_factory=dict)

    def load(self) -> dict[str, EvictionRecord]:
        return dict(self.records)

    def save(self, records: Mapping[str, EvictionRecord]) -> None:
        self.records = dict(records)
