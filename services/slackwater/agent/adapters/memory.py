"""Journal, ledgers and documents in memory: for simulated machines, whose values end with the process, and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.agent.domain.journal import Journal, replay
from slackwater.agent.domain.ledger import EvictionRecord
from slackwater.agent.domain.starts import StartRecord
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared


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

    def save(self, records: Mapping[str, EvictionRecord], *, sync: bool = True) -> None:
        self.records = dict(records)


@dataclass(slots=True)
class MemoryStarts:
    """Keeps the records of starts as a disk would."""

    records: dict[str, StartRecord] = field(default_factory=dict)

    def load(self) -> dict[str, StartRecord]:
        return dict(self.records)

    def save(self, records: Mapping[str, StartRecord]) -> None:
        self.records = dict(records)


@dataclass(slots=True)
class MemoryIntents:
    """Keeps the last documents as a disk would."""

    kept: Sequence[Event[IntentDeclared]] = ()

    def load(self) -> Sequence[Event[IntentDeclared]]:
        return self.kept

    def save(self, intents: Sequence[Event[IntentDeclared]]) -> None:
        self.kept = tuple(intents)
