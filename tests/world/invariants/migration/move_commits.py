"""The commits of migration as jobs, reservations and events, and the ledger that they add up to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter
from tests.world.plan import MIGRATION
from tests.world.servers import Commit
from tests.world.trace import Step

from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.serialized import type_of
from slackwater.migration.domain.stored_jobs import StoredJob, StoredReservation
from slackwater.podmigration.jobs import MigrationReason, MigrationStep

T = TypeVar("T")
JOBS: Final = "jobs"
RESERVATIONS: Final = "kept_reservations"
STATE: Final = "arbitration"
ASKS: Final = "asks"
_JOB: Final = TypeAdapter(StoredJob)
_RESERVATION: Final = TypeAdapter(StoredReservation)
_RECORDED: Final = type_of(DecisionRecorded)
RESTING: Final = frozenset({MigrationStep.WAITING, MigrationStep.ENDED})
"""Steps of jobs that take no place."""


@dataclass
class MoveCommit:
    """What one transaction of migration wrote: before and after, by name; None where there is no row."""

    member: str = ""
    jobs: dict[str, tuple[StoredJob | None, StoredJob | None]] = field(default_factory=dict)
    reservations: dict[str, tuple[StoredReservation | None, StoredReservation | None]] = field(default_factory=dict)
    generations: tuple[int, int] | None = None
    rounds: tuple[float | None, float | None] = (None, None)
    """When the last round of arbitration began."""
    records: list[DecisionRecorded] = field(default_factory=list)
    aborts: list[str] = field(default_factory=list)
    """Names of jobs whose abort is taken in: it is asked for no more."""

    @property
    def has_round(self) -> bool:
        return self.rounds[0] != self.rounds[1]


def move_commit_of(step: Step) -> MoveCommit | None:
    """The commit of a step, if it wrote the ledger of migration. It is read once for all invariants."""
    if step.subject != MIGRATION:
        return None
    if not step.decoded:
        commit: Commit = step.value
        tables = {table for table, _ in commit.written}
        step.decoded.append(_read(commit) if STATE in tables else None)
    found: MoveCommit | None = step.decoded[0]
    return found


def _read(commit: Commit) -> MoveCommit:
    read = MoveCommit(commit.member)
    for (table, _), pair in commit.written.items():
        before, after = (_row(commit, table, values) for values in pair)
        if table == JOBS:
            _add(read.jobs, _JOB, before, after)
        elif table == RESERVATIONS:
            _add(read.reservations, _RESERVATION, before, after)
        elif table == ASKS and before is not None and after is None:
            if before["document"].content["request"] is None:
                read.aborts.append(str(before["document"].content["name"]))
        elif table == STATE and after is not None:
            read.generations = (before["generation"] if before else 0, after["generation"])
            read.rounds = _round(before), _round(after)
        elif table == "outbox" and before is None and after is not None and after["type"] == _RECORDED:
            read.records.append(DecisionRecorded.model_validate(json.loads(after["payload"])))
    return read


def _round(row: Mapping[str, Any] | None) -> float | None:
    return None if row is None else row["document"].content["round_s"]


def _add(
    found: dict[str, tuple[T | None, T | None]],
    adapter: TypeAdapter[T],
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> None:
    old, new = (None if row is None else adapter.validate_python(row["document"].content) for row in (before, after))
    name = str((after or before or {})["name"])
    earlier, later = found.get(name, (None, None))
    found[name] = (old if old is not None else earlier, new if new is not None else later)


def _row(commit: Commit, table: str, values: Any) -> Mapping[str, Any] | None:
    names = commit.schema.tables[table].definition.names
    return None if values is None else dict(zip(names, values, strict=True))


class MoveBooks:
    """The jobs and reservations after each commit, kept by hand."""

    def __init__(self) -> None:
        self.jobs: dict[str, StoredJob] = {}
        self.reservations: dict[str, StoredReservation] = {}

    def apply(self, commit: MoveCommit) -> None:
        _apply(self.jobs, commit.jobs)
        _apply(self.reservations, commit.reservations)

    def active(self) -> list[StoredJob]:
        """The jobs that are admitted and have not ended."""
        return [stored for stored in self.jobs.values() if stored.job.step not in RESTING]


def _apply(kept: dict[str, T], changed: Mapping[str, tuple[T | None, T | None]]) -> None:
    for name, (_, after) in changed.items():
        if after is None:
            kept.pop(name, None)
        else:
            kept[name] = after


def admitted(commit: MoveCommit) -> Iterator[StoredJob]:
    """The jobs that this commit admits, also those that end in it."""
    for before, after in commit.jobs.values():
        if after is not None and after.job.admitted_s is not None:
            is_new = before is None or before.job.id != after.job.id or before.job.admitted_s is None
            if is_new:
                yield after


def ended_after_round(commit: MoveCommit) -> list[StoredJob]:
    """The jobs that ended after the arbitration of this commit, which still counted them: those that it admits, and
    dry runs, which end where others begin."""
    new = [stored for stored in admitted(commit) if not stored.is_live]
    dry = [
        after
        for before, after in commit.jobs.values()
        if after is not None and after.job.reason is MigrationReason.DRY_RUN and before is not None and before.is_live
    ]
    return new + [stored for stored in dry if stored not in new]
