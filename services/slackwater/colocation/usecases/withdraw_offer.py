"""Withdraws the offer of a node that enters quarantine, and publishes a new one when it is released."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from slackwater.colocation.usecases.node_updates import (
    apply_description,
    apply_liveness,
    apply_peaks,
    apply_reservations,
)
from slackwater.colocation.usecases.offer_events import SOURCE
from slackwater.colocation.usecases.recompute_offer import STATES, Offering, recompute_node
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Input, Replay
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_reserved import NodeReserved
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.quantities import Resources
from slackwater.model.time import later_than
from slackwater.offers.node import NodeState
from slackwater.store.quarantine import Item

P = TypeVar("P", bound=Payload)

DEGRADED = "state is in quarantine"
SUBJECTS = {
    "batch-cpu": "milli-cores",
    "batch-memory": "bytes",
    "mid-cpu": "milli-cores",
    "mid-memory": "bytes",
}
_FUNCTION = "slackwater.offers.degradation:offer_in_quarantine"
_IDS = uuid.UUID("2f4c8c64-0b0d-5f0e-9d0a-3d4b5a7c9e11")


class Latest(Protocol):
    """The signature of slackwater.bus.port.Bus.latest."""

    async def __call__(self, payload: type[P], node: str) -> Event[P] | None: ...


async def withdraw_offer(offering: Offering, item: Item) -> None:
    """Publishes an offer of 0 with a record for each resource. Raises Unavailable, Fenced."""
    if item.table != STATES or not item.node:
        return
    last = await offering.store.last_offer(item.node)
    now = later_than(last.offered_at, offering.clock.now())
    records = [_record(item, subject, unit, now) for subject, unit in SUBJECTS.items()]
    offered = ResourcesOffered(
        node=item.node,
        offered_at=now,
        generation=last.generation + 1,
        batch=Resources(),
        degraded=DEGRADED,
        decision_ids={record.subject: record.id for record in records},
        reason=Reason.OFFER_DEGRADED.value,
    )
    events: list[Event[Any]] = [
        *(event_of(DecisionRecorded(record=record), source=SOURCE, time=now) for record in records),
        event_of(offered, source=SOURCE, time=now),
    ]
    async with offering.store.begin() as transaction:
        for event in events:
            await transaction.publish(event)
    offering.published(events, None)


async def restore_offer(offering: Offering, latest: Latest, item: Item) -> None:
    """Recomputes a released node from the last description, liveness, prediction and reservations in its streams.

    Its offer is published in any case, because the last one was 0. A node that still fails returns to quarantine.
    Raises Unavailable, Fenced.
    """
    if item.table != STATES or not item.node:
        return
    described = await latest(NodeDescribed, item.node)
    liveness = await latest(NodeLivenessChanged, item.node)
    peaks = await latest(PeakPredicted, item.node)
    reserved = await latest(NodeReserved, item.node)

    def brought_up_to_date(state: NodeState) -> NodeState:
        state = _after_withdrawal(state)
        state = state if described is None else apply_description(state, described)
        state = state if liveness is None else apply_liveness(state, liveness)
        state = state if peaks is None else apply_peaks(state, peaks)
        return state if reserved is None else apply_reservations(state, reserved)

    with offering.quarantine.isolating(STATES, item.row, node=item.node):
        async with offering.store.begin() as transaction:
            events = await recompute_node(offering, transaction, item.node, brought_up_to_date, None, republish=True)
        offering.published(events, None)


def _after_withdrawal(state: NodeState) -> NodeState:
    """Counts the generation of the withdrawal and its time, which the row does not contain."""
    told_by = state.told_by and replace(state.told_by, at=later_than(state.told_by.at, state.told_by.at))
    return replace(state, generation=state.generation + 1, told_by=told_by)


def _record(item: Item, subject: str, unit: str, now: datetime) -> DecisionRecord:
    return DecisionRecord(
        id=str(uuid.uuid5(_IDS, f"{item.id}|{subject}|{now.isoformat()}")),
        kind=DecisionKind.OFFER,
        node=item.node,
        subject=subject,
        service=SOURCE,
        rule="quarantine",
        reason=Reason.OFFER_DEGRADED,
        decided_at=now,
        trigger_event_id=None,
        inputs=(
            Input(name=item.reason.value, value=item.detail, unit="", source=f"quarantine/{item.id}", observed_at=now),
        ),
        terms=(),
        result=0,
        unit=unit,
        replay=Replay(function=_FUNCTION, arguments={"reason": item.reason.value}),
    )
