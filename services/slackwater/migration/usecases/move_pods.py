"""Repeats rounds: reads what is asked and answered, decides, and writes what follows with its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol

from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import Event, event_of
from slackwater.events.reclaim_requested import MOVES_TREE, ReclaimRequested, WantedReclaim
from slackwater.migration.domain.eviction_grant import VALID_S, GrantRequest
from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.domain.job_intake import has_news
from slackwater.migration.domain.migration_round import MigrationAsks, RoundResult, migration_round
from slackwater.migration.domain.reservation_round import begins_anew
from slackwater.migration.domain.sightings import SeenCluster, wanted_of
from slackwater.migration.domain.stored_jobs import (
    ARBITRATION,
    EvictionAnswer,
    GrantAnswer,
    MigrationLedger,
    StoredJob,
)
from slackwater.migration.metrics import MigrationMetrics
from slackwater.migration.ports import MigrationStore
from slackwater.migration.usecases.cluster_sight import ClusterSight
from slackwater.migration.usecases.eviction_intents import intent_event
from slackwater.migration.usecases.job_records import SERVICE, admission_record, job_event, shown_state, step_record
from slackwater.migration.usecases.reserved_rooms import ReservedNews
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.podmigration.documents import ArbitrationRules, JobRequest
from slackwater.podmigration.jobs import MigrationStep
from slackwater.reservations.reservation import PLACED

MOST_HELD_RECORDS: Final = 50
"""Records of one round about jobs that wait; every job shows its hold in its status."""
MOST_ENDED: Final = 100
"""Ended jobs that are dropped in one transaction."""


class MoveAsks(Protocol):
    """What documents ask for now."""

    async def read(self) -> None: ...

    def now(self, ledger: MigrationLedger) -> MigrationAsks: ...

    def rules(self) -> ArbitrationRules: ...


class MovePods:
    """One replica decides at a time: the owner of the partition of arbitration. The generation keeps even two apart."""

    def __init__(
        self,
        store: MigrationStore,
        sight: ClusterSight,
        documents: MoveAsks,
        clock: Clock,
        meter: MigrationMetrics,
        owned: Callable[[], Collection[int]],
        grace_seconds: float,
        answered: asyncio.Event,
    ) -> None:
        """`answered` is set for a round at once."""
        self._store = store
        self._sight = sight
        self._documents = documents
        self._clock = clock
        self._meter = meter
        self._owned = owned
        self._grace_s = grace_seconds
        self._answered = answered
        self._ledger: MigrationLedger | None = None
        self._reserved = ReservedNews()
        self._turn = asyncio.Lock()

    def note_eviction(self, key: str) -> None:
        """An eviction is answered: what nothing else replaces is started without waiting for the next round."""
        live = [] if self._ledger is None else self._ledger.live()
        if any(stored.job.starts_replacement and stored.eviction_key == key for stored in live):
            self._answered.set()

    def is_mine(self) -> bool:
        """Whether this replica decides."""
        return partition_of(ARBITRATION) in self._owned()

    async def __call__(self) -> None:
        """One round. Raises Unavailable, Conflict: nothing was written, or that is not known; the next round reads
        what is kept."""
        async with self._turn:
            if not self.is_mine():
                self._ledger, self._reserved = None, ReservedNews()
                return
            if not self._sight.is_known:
                return
            try:
                await self._round()
            except BaseException:
                self._ledger, self._reserved = None, ReservedNews()
                raise

    async def _round(self) -> None:
        ledger = self._ledger if self._ledger is not None else await self._load()
        self._ledger = ledger
        kept = await self._store.asks()
        asks = with_kept(self._documents.now(ledger), kept, ledger)
        now = self._clock.now()
        if not kept and not has_work(ledger, asks) and not self._reserved.is_due(now.timestamp()):
            self._show(ledger)
            return
        uids, workloads = wanted_of(ledger.jobs.values())
        names = _names(asks, ledger)
        world = self._sight.world(uids | {request.pod_uid for request in asks.jobs.values()}, names, workloads)
        world = replace(world, seen=await self._with_answers(world.seen, ledger))
        result = migration_round(ledger, asks, world, self._documents.rules(), self._grace_s, now.timestamp())
        done = taken(kept, result.ledger, asks, now.timestamp())
        reserved = self._reserved.events(ledger, result.ledger, now)
        if result.ledger == ledger and not done and not reserved:
            return
        after, events = self._published(ledger, result, now)
        events += reserved
        self._ledger = await self._store.commit(ledger, after, events, done)
        self._note(result, now)
        self._show(self._ledger)

    async def _load(self) -> MigrationLedger:
        """The ledger, and then the documents: the replica that decided until now may have deleted one with its job, and
        a document that was read before would make the job once more."""
        ledger = await self._store.load()
        await self._documents.read()
        return ledger

    async def _with_answers(self, seen: SeenCluster, ledger: MigrationLedger) -> SeenCluster:
        live = ledger.live()
        evicting = (MigrationStep.EVICTING, MigrationStep.WITHDRAWING, MigrationStep.REPLACING)
        keys = {stored.eviction_key for stored in live if stored.job.step in evicting}
        keys |= {stored.grant.request for stored in live if stored.job.step is MigrationStep.ADMITTED} - {""}
        if not keys:
            return seen
        answers = await self._store.answers(keys)
        return replace(
            seen,
            evictions={said.key: said for said in answers if isinstance(said, EvictionAnswer)},
            grants={said.id: said for said in answers if isinstance(said, GrantAnswer)},
        )

    def _published(
        self, before: MigrationLedger, result: RoundResult, now: datetime
    ) -> tuple[MigrationLedger, list[Event[Any]]]:
        """The ledger with the ids of the last decisions, and the events that follow from the round."""
        generation, jobs = before.state.generation + 1, dict(result.ledger.jobs)
        records: list[DecisionRecord] = []
        for step in result.steps:
            stored = jobs[step.name]
            if step.by_round and result.snapshot is not None:
                record = admission_record(replace(stored, job=step.after), result.snapshot, generation, now)
            else:
                record = step_record(step, stored, generation, now)
            records.append(record)
            jobs[step.name] = replace(stored, decision=record.id)
        if result.snapshot is not None:
            for name in result.held[:MOST_HELD_RECORDS]:
                record = admission_record(jobs[name], result.snapshot, generation, now)
                records.append(record)
                jobs[name] = replace(jobs[name], decision=record.id)
        events: list[Event[Any]] = [decision_event(record, None, SERVICE) for record in records]
        for declared in result.declared:
            evicting = tuple(jobs[stored.name] for stored in declared.jobs)
            held = replace(declared, jobs=evicting, starts=tuple(jobs[stored.name] for stored in declared.starts))
            events.append(intent_event(held, self._grace_s, now))
        events += [event_of(_grant_request(asked, now), source=SERVICE, time=now) for asked in result.grant_requests]
        for name, stored in jobs.items():
            earlier = before.jobs.get(name)
            if earlier is None or shown_state(earlier) != shown_state(stored):
                events.append(event_of(job_event(stored, now), source=SERVICE, time=now))
        return replace(result.ledger, jobs=jobs), events

    def _note(self, result: RoundResult, now: datetime) -> None:
        for step in result.steps:
            self._meter.stepped(step.after.step.value)
            if step.after.outcome is not None:
                downtime_s = result.ledger.jobs[step.name].downtime_s
                self._meter.ended(step.after.outcome.value, now.timestamp() - step.after.submitted_s, downtime_s)

    def _show(self, ledger: MigrationLedger) -> None:
        waiting: dict[str, int] = {}
        running = 0
        for stored in ledger.live():
            if stored.job.step is not MigrationStep.WAITING:
                running += 1
            elif stored.hold is not None:
                waiting[stored.hold.filter.value] = waiting.get(stored.hold.filter.value, 0) + 1
        held = sum(stored.reservation.phase in PLACED for stored in ledger.reservations.values())
        self._meter.show(waiting, running, held)

    async def ended_before(self, before_s: float) -> Sequence[StoredJob]:
        """Returns the first jobs that ended before; none where another replica decides. Raises Unavailable."""
        if not self.is_mine():
            return ()
        ended = [stored for stored in (await self._store.jobs()).values() if (stored.ended_s or before_s) < before_s]
        return sorted(ended, key=lambda stored: stored.name)[:MOST_ENDED]

    async def drop(self, names: Collection[str]) -> None:
        """Drop ended jobs. Raises Unavailable, Conflict."""
        async with self._turn:
            ledger = await self._store.load()
            self._ledger = None
            kept = {name: stored for name, stored in ledger.jobs.items() if stored.is_live or name not in names}
            await self._store.commit(ledger, replace(ledger, jobs=kept), ())


def has_work(ledger: MigrationLedger, asks: MigrationAsks) -> bool:
    """Whether a round may change anything. Ended jobs whose documents are still there do not."""
    kept = ledger.reservations
    return (
        bool(ledger.live() or ledger.state.documents)
        or any(not stored.reservation.has_ended for stored in kept.values())
        or has_news(ledger.jobs, asks.jobs, asks.withdrawn)
        or any(name not in kept or begins_anew(kept[name], asked) for name, asked in asks.reservations.items())
        or any(name in asks.gone_reservations for name, stored in kept.items() if not stored.job)
    )


def with_kept(asks: MigrationAsks, kept: Mapping[str, JobAsk], ledger: MigrationLedger) -> MigrationAsks:
    """Returns what documents ask for, with proposed jobs and aborts. A name that a document or a kept job has is not
    taken by a proposal."""
    jobs, asked_s, withdrawn = dict(asks.jobs), dict(asks.asked_s), set(asks.withdrawn)
    for ask in kept.values():
        if ask.request is None:
            withdrawn.add(ask.name)
        elif ask.name not in jobs and ask.name not in ledger.jobs:
            jobs[ask.name], asked_s[ask.name] = ask.request, ask.asked_s
    return replace(asks, jobs=jobs, asked_s=asked_s, withdrawn=withdrawn)


def taken(kept: Mapping[str, JobAsk], ledger: MigrationLedger, asks: MigrationAsks, now_s: float) -> frozenset[str]:
    """Returns the keys of asks that a round has taken in: jobs that are kept now, aborts that are noted."""
    done = set()
    for key, ask in kept.items():
        stored = ledger.jobs.get(ask.name)
        if (ask.request is not None and stored is not None) or (
            ask.request is None and (stored is None or not stored.is_live or stored.job.abort_requested)
        ):
            done.add(key)
    return frozenset(done)


def _names(asks: MigrationAsks, ledger: MigrationLedger) -> set[tuple[str, str]]:
    requests: list[JobRequest] = [
        request for name, request in asks.jobs.items() if name not in ledger.jobs or not ledger.jobs[name].is_live
    ]
    return {(request.pod_namespace, request.pod_name) for request in requests if not request.pod_uid}


def _grant_request(asked: GrantRequest, now: datetime) -> ReclaimRequested:
    return ReclaimRequested(
        id=asked.request,
        tree=MOVES_TREE,
        wanted=tuple(WantedReclaim(claim=job, order=job, evictions={pool: 1}) for job, pool in asked.pools),
        valid_seconds=VALID_S,
        by_intent=True,
        requested_at=now,
    )
