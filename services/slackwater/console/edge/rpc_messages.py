"""Views as gRPC messages. Only this module depends on both. A None stays absent."""

from __future__ import annotations

from datetime import datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from slackwater.console.domain.conditions import TRUE
from slackwater.console.domain.views import NodeCondition, NodeView, OfferView, StatusOffer, UsagePoint
from slackwater.console.usecases.watch_offers import (
    Current,
    Offered,
    SnapshotReason,
    SnapshotStarted,
    WatchUpdate,
    Withdrawn,
)
from slackwater.model.quantities import Resources
from slackwater.v1 import colocation_service_pb2, node_pb2, offer_pb2, quantity_pb2

TIERS = {
    "prod": quantity_pb2.TIER_PROD,
    "mid": quantity_pb2.TIER_MID,
    "batch": quantity_pb2.TIER_BATCH,
    "free": quantity_pb2.TIER_FREE,
}
LIVENESS = {
    "fresh": node_pb2.LIVENESS_FRESH,
    "stale": node_pb2.LIVENESS_STALE,
    "lost": node_pb2.LIVENESS_LOST,
}
REASONS = {
    SnapshotReason.INITIAL: colocation_service_pb2.SNAPSHOT_REASON_INITIAL,
    SnapshotReason.LOG_BEGAN_ANEW: colocation_service_pb2.SNAPSHOT_REASON_LOG_BEGAN_ANEW,
}


def node_message(node: NodeView, validity: timedelta) -> node_pb2.Node:
    """A node. `validity` is how long an offer stays valid after its node's last report."""
    facts, usage, offer = node.facts, node.usage, node.offer
    known_at = max(when for when in (usage and usage.sampled_at, offer.offered_at) if when) if offer else None
    return node_pb2.Node(
        name=node.name,
        pool=facts.pool if facts else "",
        labels=facts.labels if facts else {},
        capacity=_amount(facts.capacity if facts else None),
        reserved=_amount(facts.reserved if facts else None),
        liveness=LIVENESS.get(node.liveness or "", node_pb2.LIVENESS_UNSPECIFIED),
        liveness_changed_at=_time(node.liveness_changed_at),
        described_at=_time(node.described_at),
        usage=_usage(usage) if usage else None,
        offer=offer_message(offer, known_at + validity) if offer and known_at else None,
        conditions=[_condition(condition) for condition in node.conditions],
    )


def _condition(condition: NodeCondition) -> node_pb2.NodeCondition:
    return node_pb2.NodeCondition(
        type=condition.type,
        is_true=condition.status == TRUE,
        reason=condition.reason,
        message=condition.message,
        since=_time(condition.since),
        valid_until=_time(condition.valid_until),
        decision_id=condition.decision_id,
        rules=condition.rules,
    )


def offer_message(offer: OfferView, valid_until: datetime) -> offer_pb2.Offer:
    """An offer. `mid` is absent until something is offered to it."""
    return offer_pb2.Offer(
        node=offer.node,
        generation=offer.generation,
        batch=_amount(offer.batch),
        mid=_amount(offer.mid) if offer.mid != Resources() else None,
        offered_at=_time(offer.offered_at),
        valid_until=_time(valid_until),
        degraded_because=offer.degraded or "",
        decision_ids=offer.decision_ids,
        zones=[offer_pb2.ZoneOffer(name=zone.name, batch=_amount(zone.batch)) for zone in offer.zones],
        reason=offer.reason,
        strategies=offer.strategies,
        status=_status(offer.status) if offer.status else None,
    )


def _status(status: StatusOffer) -> offer_pb2.StatusOffer:
    return offer_pb2.StatusOffer(batch=_amount(status.batch), before=_amount(status.before), cpu_ratio=status.cpu_ratio)


def watch_message(update: WatchUpdate, validity: timedelta) -> colocation_service_pb2.WatchOffersResponse:
    """One message of a watch with its resume token."""
    response = colocation_service_pb2.WatchOffersResponse(resume_token=update.token)
    event = update.event
    if isinstance(event, SnapshotStarted):
        response.snapshot_start.reason = REASONS[event.reason]
    elif isinstance(event, Offered):
        response.offer.CopyFrom(offer_message(event.offer, event.as_of + validity))
    elif isinstance(event, Withdrawn):
        response.offer_withdrawn.node = event.node
    elif isinstance(event, Current):
        response.bookmark.as_of.FromDatetime(event.as_of)
        response.bookmark.valid_until.FromDatetime(event.as_of + validity)
    return response


def _usage(point: UsagePoint) -> node_pb2.NodeUsage:
    tiers = [node_pb2.TierUsage(tier=number, used=_amount(point.tiers.get(name))) for name, number in TIERS.items()]
    return node_pb2.NodeUsage(
        sampled_at=_time(point.sampled_at),
        window_seconds=point.window_seconds,
        total=_amount(point.usage),
        system=_amount(None if point.system is None else point.beside_pods),
        tiers=[tier for tier in tiers if tier.HasField("used")],
        node_cpu_pressure=point.node_pressure,
        prod_cpu_pressure=point.prod_pressure,
    )


def _amount(amount: Resources | None) -> quantity_pb2.Resources | None:
    if amount is None:
        return None
    return quantity_pb2.Resources(cpu_milli=amount.cpu_milli, memory_bytes=amount.memory_bytes)


def _time(moment: datetime | None) -> Timestamp | None:
    if moment is None:
        return None
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp
