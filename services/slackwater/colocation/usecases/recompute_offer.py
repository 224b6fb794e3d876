"""Whenever something about a node is news, or time has passed: decide its offer anew, and tell it if it changed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from slackwater.colocation.domain.degrade import degraded_because
from slackwater.colocation.domain.node import NodeState, due_at_of, snapshot_of
from slackwater.colocation.domain.offer import Decided, decide_resource
from slackwater.colocation.domain.snapshot import NodeSnapshot
from slackwater.colocation.ports import ColocationStore, ColocationTransaction, Followed, Strategies
from slackwater.colocation.usecases.record_offer import SUBJECTS, Told, offer_record
from slackwater.decisions.reasons import Reason
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock
from slackwater.telemetry.traceparent import trace_id_of

SOURCE = "colocation"
_IDS = uuid.UUID("5b7c1d0e-27a5-5d0b-8d0f-6a1c4f0f9b52")


@dataclass(frozen=True, slots=True)
class Offering:
    """What every use case here needs; `published` is told what was put into the outbox and how long ago its
    cause was published, after the commit."""

    store: ColocationStore
    strategies: Strategies
    clock: Clock
    published: Callable[[Sequence[Event[Any]], float | None], None] = lambda events, caused_seconds_ago: None


@dataclass(frozen=True, slots=True)
class News:
    """One event, the node it speaks of, and what it changes there."""

    event: Event[Any]
    node: str
    change: Callable[[NodeState], NodeState]


async def take_news(offering: Offering, consumer: str, batch: Sequence[News]) -> int:
    """Apply events to their nodes, each in turn, and decide anew after each, all in one transaction.

    Returns how many had not been handled before. Raises Unavailable.
    """
    told: list[tuple[Event[Any], Sequence[Event[Any]]]] = []
    async with offering.store.begin() as transaction:
        await transaction.expect(consumer, [(news.event.id, news.node) for news in batch])
        for news in batch:
            if await transaction.first_time(consumer, news.event.id):
                events = await _decide_anew(offering, transaction, news.node, news.change, news.event)
                told.append((news.event, events))
    for cause, events in told:
        offering.published(events, (offering.clock.now() - cause.time).total_seconds())
    return len(told)


async def age_offers(offering: Offering, partitions: Collection[int] = ALL_PARTITIONS) -> int:
    """Decide anew where usage or prediction has grown old, for the nodes of these partitions.

    Called by a timer; returns how many offers changed. Raises Unavailable, Fenced.
    """
    return await revisit(offering, await offering.store.ageing(offering.clock.now().timestamp()), partitions)


async def revisit(offering: Offering, nodes: Iterable[str], partitions: Collection[int] = ALL_PARTITIONS) -> int:
    """Decide anew for these nodes without any news of them, each in a transaction of its own; those of other partitions
    are left alone. Returns how many offers changed. Raises Unavailable, Fenced.
    """
    changed = 0
    for node in nodes:
        if partition_of(node) not in partitions:
            continue
        async with offering.store.begin() as transaction:
            events = await _decide_anew(offering, transaction, node, lambda state: state, None)
        offering.published(events, None)
        changed += bool(events)
    return changed


async def _decide_anew(
    offering: Offering,
    transaction: ColocationTransaction,
    node: str,
    change: Callable[[NodeState], NodeState],
    trigger: Event[Any] | None,
) -> Sequence[Event[Any]]:
    state = await transaction.load(node)
    changed = change(state)
    after, events = recompute(changed, offering.strategies.of(changed), offering.clock.now(), trigger)
    if after != state:
        await transaction.save(after)
    for event in events:
        await transaction.publish(event)
    return events


def recompute(
    state: NodeState, followed: Followed, now: datetime, trigger: Event[Any] | None
) -> tuple[NodeState, list[Event[Any]]]:
    """The node's state after deciding, and what is to be published: nothing while nothing changed."""
    strategy = followed.strategy
    snapshot = snapshot_of(state, strategy, now)
    if snapshot is None:
        return state, []
    cpu = decide_resource("cpu", snapshot, strategy, state.cpu, state.window_end)
    memory = decide_resource("memory", snapshot, strategy, state.memory, state.window_end)
    degraded = degraded_because(snapshot, strategy)
    after = replace(
        state,
        cpu=cpu.gate,
        memory=memory.gate,
        degraded=degraded,
        due_at=due_at_of(state, strategy, now),
    )
    unchanged = (cpu.value, memory.value) == (state.cpu.published, state.memory.published)
    if unchanged and degraded == state.degraded:
        return after, []
    told = replace(after, generation=state.generation + 1)
    return told, _events(state, told, snapshot, followed, (cpu, memory), now, trigger)


def _events(
    before: NodeState,
    after: NodeState,
    snapshot: NodeSnapshot,
    followed: Followed,
    decided: tuple[Decided, Decided],
    now: datetime,
    trigger: Event[Any] | None,
) -> list[Event[Any]]:
    trigger_id, trace_id = (trigger.id, trace_id_of(trigger.traceparent)) if trigger else (None, None)
    told = Told(before, after, snapshot, followed.strategy, _reason(before, after), now, trigger_id, trace_id)
    records = [
        offer_record(told, resource, result, _id(after, SUBJECTS[resource], told))
        for resource, result in zip(SUBJECTS, decided, strict=True)
    ]
    offered = ResourcesOffered(
        node=after.node,
        offered_at=now,
        generation=after.generation,
        batch=Resources(decided[0].value, decided[1].value),
        degraded=after.degraded,
        decision_ids={record.subject: record.id for record in records},
        reason=told.reason.value,
        strategies=followed.sources,
    )
    events: list[Event[Any]] = [
        _event(DecisionRecorded(record=record), _id(after, f"{record.subject}/recorded", told), now, trigger)
        for record in records
    ]
    return [*events, _event(offered, _id(after, "resources.offered", told), now, trigger)]


def _reason(before: NodeState, after: NodeState) -> Reason:
    if after.degraded is not None:
        return Reason.OFFER_DEGRADED
    if before.generation == 0:
        return Reason.OFFER_FIRST
    return Reason.OFFER_CHANGED if before.degraded is None else Reason.OFFER_RECOVERED


def _id(state: NodeState, subject: str, told: Told) -> str:
    """The same whenever the same offer is decided again for the same cause."""
    cause = told.trigger_id or told.now.isoformat()
    return str(uuid.uuid5(_IDS, f"{state.node}|{state.generation}|{subject}|{cause}"))


def _event(payload: Any, identity: str, now: datetime, trigger: Event[Any] | None) -> Event[Any]:
    return event_of(payload, source=SOURCE, time=now, causedby=trigger, id=identity)
