"""From views to messages and back: what a client reads is what the read model says."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from slackwater.console.domain.views import NodeCondition, NodeView, OfferView, StatusOffer, UsagePoint, ZoneOffer
from slackwater.console.edge.rpc_messages import LIVENESS, REASONS, TIERS, node_message, offer_message, watch_message
from slackwater.console.usecases.watch_offers import Current, SnapshotReason, SnapshotStarted, WatchUpdate, Withdrawn
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.v1 import node_pb2, offer_pb2, quantity_pb2

VALIDITY = timedelta(seconds=180)
names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
amounts = st.builds(Resources, st.integers(-(2**40), 2**40), st.integers(-(2**60), 2**60))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.integers(0, 7 * 10**15).map(lambda micros: EPOCH + timedelta(microseconds=micros))
ratios = st.none() | st.floats(0, 1)
offers = st.builds(
    OfferView,
    event_id=st.just(""),
    node=names,
    offered_at=moments,
    generation=st.integers(0, 2**62),
    batch=amounts,
    degraded=st.none() | names,
    decision_ids=st.dictionaries(names, names, max_size=2),
    mid=st.just(Resources()) | amounts,
    zones=st.lists(st.builds(ZoneOffer, names, amounts), max_size=2).map(tuple),
    reason=st.just("") | names,
    strategies=st.lists(names, max_size=3).map(tuple),
    status=st.none() | st.builds(StatusOffer, amounts, amounts, st.sampled_from(["1", "1.20"])),
)
usages = st.builds(
    UsagePoint,
    event_id=st.just(""),
    node=st.just("n"),
    sampled_at=moments,
    window_seconds=st.floats(0, 1e6),
    trigger=st.just(""),
    usage=amounts,
    system=st.none() | amounts,
    tiers=st.dictionaries(st.sampled_from([str(tier) for tier in Tier]), amounts),
    node_pressure=ratios,
    prod_pressure=ratios,
    batch_limit_milli=st.none(),
    throttled_pods=st.just(0),
    pods=st.just(0),
)
facts = st.builds(
    NodeFacts,
    name=st.just("n"),
    pool=names,
    capacity=amounts,
    reserved=amounts,
    topology=st.just(CpuTopology(1, 1, 1, 1)),
    kernel=st.just(""),
    cgroup_version=st.just(""),
    driver=st.just(""),
    agent_version=st.just(""),
    labels=st.dictionaries(names, names, max_size=2),
)
conditions = st.builds(
    NodeCondition,
    type=st.just("SchedulingClosed"),
    status=st.sampled_from(["True", "False"]),
    reason=names,
    message=names,
    since=moments,
    told_at=moments,
    valid_until=st.none() | moments,
    decision_id=names,
    rules=st.lists(names, max_size=2).map(tuple),
)
nodes = st.builds(
    NodeView,
    name=names,
    facts=st.none() | facts,
    described_at=st.none() | moments,
    boot_epoch=st.none(),
    liveness=st.none() | st.sampled_from(sorted(LIVENESS)),
    liveness_changed_at=st.none() | moments,
    usage=st.none() | usages,
    offer=st.none() | offers,
    conditions=st.lists(conditions, max_size=1).map(tuple),
)


def read_time(message: Any, field: str) -> datetime | None:
    stamp: Timestamp = getattr(message, field)
    return stamp.ToDatetime(UTC) if message.HasField(field) else None


def read_amount(message: Any, field: str) -> Resources | None:
    amount: quantity_pb2.Resources = getattr(message, field)
    return Resources(amount.cpu_milli, amount.memory_bytes) if message.HasField(field) else None


def read_status(status: offer_pb2.StatusOffer) -> StatusOffer:
    batch, before = read_amount(status, "batch"), read_amount(status, "before")
    return StatusOffer(batch or Resources(), before or Resources(), status.cpu_ratio)


def read_offer(offer: offer_pb2.Offer) -> dict[str, Any]:
    return {
        "node": offer.node,
        "generation": offer.generation,
        "batch": read_amount(offer, "batch"),
        "offered_at": read_time(offer, "offered_at"),
        "degraded": offer.degraded_because or None,
        "decision_ids": dict(offer.decision_ids),
        "mid": read_amount(offer, "mid") or Resources(),
        "zones": tuple(ZoneOffer(zone.name, read_amount(zone, "batch") or Resources()) for zone in offer.zones),
        "reason": offer.reason,
        "strategies": tuple(offer.strategies),
        "status": read_status(offer.status) if offer.HasField("status") else None,
    }


def _times(one: node_pb2.NodeCondition) -> tuple[datetime | None, datetime | None]:
    return read_time(one, "since"), read_time(one, "valid_until")


def told_offer(view: OfferView) -> dict[str, Any]:
    return {field.name: getattr(view, field.name) for field in fields(view) if field.name != "event_id"}


def read_node(node: node_pb2.Node) -> dict[str, Any]:
    words = {number: word for word, number in LIVENESS.items()}
    usage = node.usage
    tiers = {number: word for word, number in TIERS.items()}
    return {
        "name": node.name,
        "facts": (node.pool, dict(node.labels), read_amount(node, "capacity"), read_amount(node, "reserved")),
        "liveness": words.get(node.liveness),
        "times": (read_time(node, "described_at"), read_time(node, "liveness_changed_at")),
        "offer": read_offer(node.offer) if node.HasField("offer") else None,
        "usage": (
            read_time(usage, "sampled_at"),
            usage.window_seconds,
            read_amount(usage, "total"),
            read_amount(usage, "system"),
            {tiers[tier.tier]: read_amount(tier, "used") for tier in usage.tiers},
            usage.node_cpu_pressure if usage.HasField("node_cpu_pressure") else None,
            usage.prod_cpu_pressure if usage.HasField("prod_cpu_pressure") else None,
        )
        if node.HasField("usage")
        else None,
        "conditions": [
            (one.type, str(one.is_true), one.reason, one.message, one.decision_id, tuple(one.rules), *_times(one))
            for one in node.conditions
        ],
    }


def told_node(view: NodeView) -> dict[str, Any]:
    known, usage = view.facts, view.usage
    return {
        "name": view.name,
        "facts": (known.pool, known.labels, known.capacity, known.reserved) if known else ("", {}, None, None),
        "liveness": view.liveness,
        "times": (view.described_at, view.liveness_changed_at),
        "offer": told_offer(view.offer) if view.offer else None,
        "usage": (
            usage.sampled_at,
            usage.window_seconds,
            usage.usage,
            usage.system,
            dict(usage.tiers),
            usage.node_pressure,
            usage.prod_pressure,
        )
        if usage
        else None,
        "conditions": [
            (one.type, one.status, one.reason, one.message, one.decision_id, one.rules, one.since, one.valid_until)
            for one in view.conditions
        ],
    }


@given(nodes)
def test_a_node_survives_the_wire(view: NodeView) -> None:
    wire = node_message(view, VALIDITY).SerializeToString()
    assert read_node(node_pb2.Node.FromString(wire)) == told_node(view)


@given(offers, moments)
def test_an_offer_survives_the_wire(view: OfferView, until: datetime) -> None:
    message = offer_pb2.Offer.FromString(offer_message(view, until).SerializeToString())
    assert read_offer(message) == told_offer(view)
    assert read_time(message, "valid_until") == until
    assert message.HasField("mid") == (view.mid != Resources()), "nothing offered to mid is absent, not zero"


@given(nodes)
def test_an_offer_is_good_for_a_while_after_the_last_news_of_its_node(view: NodeView) -> None:
    message = node_message(view, VALIDITY)
    if view.offer is not None:
        news = [view.offer.offered_at, *([view.usage.sampled_at] if view.usage else [])]
        assert read_time(message.offer, "valid_until") == max(news) + VALIDITY


def test_every_word_of_ours_has_a_number_of_its_own() -> None:
    assert set(TIERS) == {str(tier) for tier in Tier}
    assert set(REASONS) == set(SnapshotReason)
    for numbers in (TIERS, LIVENESS, REASONS):
        assert 0 not in numbers.values()
        assert len(set(numbers.values())) == len(numbers)


def test_every_update_of_a_watch_is_a_message_with_its_token() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    events = [SnapshotStarted(SnapshotReason.INITIAL), Withdrawn("a"), Current(now)]
    found = [watch_message(WatchUpdate(event, "t"), VALIDITY) for event in events]
    assert [message.WhichOneof("event") for message in found] == ["snapshot_start", "offer_withdrawn", "bookmark"]
    assert {message.resume_token for message in found} == {"t"}
    assert read_time(found[2].bookmark, "valid_until") == now + VALIDITY
