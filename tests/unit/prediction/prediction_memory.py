"""The store of prediction over a database in memory, with its snapshots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.statements import StatementUnit
from tests.support.store import MemoryDatabase

from slackwater.events.envelope import Event
from slackwater.prediction.adapters.prediction_rows import KeyedPredictionStore
from slackwater.prediction.adapters.snapshots import PostgresSnapshots
from slackwater.prediction.domain.snapshot import Snapshot

Kept = dict[int, tuple[Snapshot, ...]]


class MemoryPredictionStore(KeyedPredictionStore):
    """What is committed is in `database` and `kept_snapshots`; `outbox` has the events."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.kept_snapshots = answer_snapshots(self.database)
        super().__init__(self.database, PostgresSnapshots())

    @property
    def outbox(self) -> list[Event[Any]]:
        return self.database.published


def answer_snapshots(database: MemoryDatabase) -> Kept:
    """Have the database answer the statements about snapshots; returns those of each partition, newest first."""
    kept: Kept = {}
    answers = database.answers

    def keep(unit: StatementUnit, _: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        snapshot = Snapshot(values["version"], values["position"], values["checksum"], values["body"])
        partition = values["partition"]
        unit.on_commit(lambda: kept.update({partition: (snapshot, *kept.get(partition, ()))}))
        return ()

    def drop_old(unit: StatementUnit, _: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        partition = values["partition"]
        unit.on_commit(lambda: kept.update({partition: kept.get(partition, ())[: values["keep"]]}))
        return ()

    def read(_: StatementUnit, __: re.Match[str], values: Mapping[str, Any]) -> Sequence[Any]:
        return kept.get(values["partition"], ())

    answers.add(r"^INSERT INTO snapshots", keep)
    answers.add(r"^DELETE FROM snapshots", drop_old)
    answers.add(r"FROM snapshots WHERE partition = :partition ORDER BY id DESC$", read)
    return kept
