"""Builds the events of a changed offer: the decision records, then the offer."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.usecases.offer_records import OfferContext, offer_records
from slackwater.decisions.reasons import Reason
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.resources_offered import OfferReserved, ResourcesOffered, StatusOffered, ZoneOffered
from slackwater.model.quantities import Resources
from slackwater.offers.node import NodeState
from slackwater.offers.node_offer import NodeOffer
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.telemetry.spans import trace_id_of

SOURCE = "colocation"
_IDS = uuid.UUID("5b7c1d0e-27a5-5d0b-8d0f-6a1c4f0f9b52")


def offer_events(
    before: NodeState,
    after: NodeState,
    snapshot: NodeSnapshot,
    followed: FollowedStrategy,
    offer: NodeOffer,
    now: datetime,
    trigger: Event[Any] | None,
    because: Reason | None = None,
) -> list[Event[Any]]:
    """Returns the events. `after` has the generation of the new offer, `now` is its time (later_than)."""
    cause = trigger.id if trigger else now.isoformat()

    def identity(subject: str) -> str:
        """Returns an id that is the same whenever the same offer is decided again for the same cause."""
        return str(uuid.uuid5(_IDS, f"{after.node}|{after.generation}|{subject}|{cause}"))

    trigger_id, trace_id = (trigger.id, trace_id_of(trigger.traceparent)) if trigger else (None, None)
    reason = because or _reason(before, after)
    context = OfferContext(before, after, snapshot, followed, offer, reason, now, trigger_id, identity, trace_id)
    records = offer_records(context)
    status = after.status
    offered = ResourcesOffered(
        node=after.node,
        offered_at=now,
        generation=after.generation,
        batch=after.batch,
        degraded=after.degraded,
        decision_ids={record.subject: record.id for record in records},
        mid=after.mid,
        zones=tuple(ZoneOffered(zone.name, zone.batch) for zone in offer.zones),
        reason=reason.value,
        strategies=followed.sources,
        status=None if status is None else StatusOffered(status.batch, status.before, status.cpu_ratio),
        reserved=_reserved(after),
    )
    named = [(DecisionRecorded(record=record), f"{record.subject}/recorded") for record in records]
    return [
        event_of(payload, source=SOURCE, time=now, causedby=trigger, id=identity(name))
        for payload, name in (*named, (offered, "resources.offered"))
    ]


def _reserved(after: NodeState) -> OfferReserved | None:
    nothing = Resources()
    if after.batch_taken == nothing and after.mid_taken == nothing:
        return None
    return OfferReserved(after.batch_taken, after.mid_taken)


def _reason(before: NodeState, after: NodeState) -> Reason:
    if after.degraded is not None:
        return Reason.OFFER_DEGRADED
    if before.generation == 0:
        return Reason.OFFER_FIRST
    return Reason.OFFER_CHANGED if before.degraded is None else Reason.OFFER_RECOVERED
