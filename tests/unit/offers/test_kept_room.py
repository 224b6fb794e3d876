"""Reservations in offers: what they keep comes off once, at once, until they expire, and records of it replay."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from drawn import gates, resources, snapshots, strategies
from gate_arrays import gate_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.batch import slack
from slackwater.offers.fleet import fleet_of
from slackwater.offers.fleet_offers import recompute
from slackwater.offers.kept_room import KeptRoom, kept_of, kept_pods
from slackwater.offers.node import InputSource, NodeState, with_kept_room
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.offer import decide, replay_of, replay_of_all
from slackwater.offers.snapshot import NodeSnapshot, amount
from slackwater.offers.snapshots import due_at_of, snapshot_of
from slackwater.offers.strategy import Strategy

NOW = datetime(2026, 1, 5, tzinfo=UTC)
FAR = NOW.timestamp() + 10_000
rooms = st.builds(
    KeptRoom,
    name=st.uuids().map(str),
    tier=st.sampled_from(["prod", "mid", "batch"]),
    qos=st.sampled_from(["LSE", "LSR", "LS", "BE"]),
    amount=resources,
    expires_s=st.none() | st.integers(0, 3).map(lambda hours: NOW.timestamp() + 3600 * hours),
)


def reserved(snapshot: NodeSnapshot, kept: list[KeptRoom]) -> NodeSnapshot:
    return replace(
        snapshot,
        pods=(*snapshot.pods, *kept_pods(kept)),
        kept_batch=kept_of("batch", kept),
        kept_mid=kept_of("mid", kept),
    )


@settings(max_examples=15)
@given(
    snapshot=snapshots,
    strategy=strategies,
    four=st.tuples(gates, gates, gates, gates),
    kept=st.lists(rooms, max_size=4),
)
def test_what_is_kept_comes_off_once_and_records_of_it_replay(
    snapshot: NodeSnapshot, strategy: Strategy, four: tuple[object, ...], kept: list[KeptRoom]
) -> None:
    known, before = reserved(snapshot, kept), Gates(*four)  # type: ignore[arg-type]
    offer, plain = decide_node(known, strategy, before, 200), decide_node(snapshot, strategy, before, 200)
    own = [room for room in kept if room.tier == "batch"]
    batch_only = decide_node(reserved(snapshot, own), strategy, before, 200)
    for resource in ("cpu", "memory"):
        held = {tier: amount(kept_of(tier, kept) or Resources(), resource) for tier in ("batch", "mid")}
        whole = amount(plain.batch.value, resource)
        assert amount(batch_only.batch.value, resource) == max(0, whole - held["batch"])
        assert amount(batch_only.mid.value, resource) == amount(plain.mid.value, resource)
        for tier, both in (("batch", offer.batch), ("mid", offer.mid)):
            one = both.cpu if resource == "cpu" else both.memory
            assert sum(term.value for term in one.terms) == one.value >= 0
            assert one.gate.published == one.value + one.taken
            assert one.taken == min(held[tier], one.value + one.taken)
            gate = getattr(before, f"{tier}_{resource}")
            arguments = replay_of_all(known, strategy, 200) | replay_of(tier, resource, gate)
            assert decide(**arguments) == one.value


@settings(max_examples=15)
@given(snapshot=snapshots, strategy=strategies, kept=st.lists(rooms, max_size=4))
def test_offers_and_what_is_kept_never_exceed_the_slack(
    snapshot: NodeSnapshot, strategy: Strategy, kept: list[KeptRoom]
) -> None:
    """Without hysteresis. The slack is what is left beside all that prod has and is kept for it."""
    known = reserved(snapshot, kept)
    offer = decide_node(known, strategy, Gates(), 200)
    for resource in ("cpu", "memory"):
        total = amount(offer.batch.value + offer.batch.taken, resource)
        total += amount(offer.mid.value + offer.mid.taken, resource)
        assert total <= max(0, slack(resource, known, strategy))


@settings(max_examples=15)
@given(
    nodes=st.lists(st.tuples(snapshots, st.lists(rooms, max_size=3)), min_size=1, max_size=4),
    strategy=strategies,
    four=st.tuples(gates, gates, gates, gates),
)
def test_the_fleet_takes_off_the_same(
    nodes: list[tuple[NodeSnapshot, list[KeptRoom]]], strategy: Strategy, four: tuple[object, ...]
) -> None:
    known, before = [reserved(snapshot, kept) for snapshot, kept in nodes], Gates(*four)  # type: ignore[arg-type]
    fleet = fleet_of(known)
    offers = recompute(fleet, strategy, gate_rows([before] * len(known)), fleet.capacity[:, 0] * 0 + 200)
    for row, snapshot in enumerate(known):
        one = decide_node(snapshot, strategy, before, 200)
        assert [*offers.batch[row].tolist()] == [one.batch.value.cpu_milli, one.batch.value.memory_bytes]
        assert [*offers.mid[row].tolist()] == [one.mid.value.cpu_milli, one.mid.value.memory_bytes]


@given(kept=st.lists(rooms, max_size=4), hours=st.integers(0, 4))
def test_one_whose_publisher_is_silent_ends_with_its_own_expiry(kept: list[KeptRoom], hours: int) -> None:
    source, at = InputSource("e", NOW), datetime.fromtimestamp(NOW.timestamp() + 3600 * hours, UTC)
    described = NodeState(
        "n", Resources(9000, 9000), described_by=source, used_by=source, window_end=int(at.timestamp())
    )
    state, strategy = with_kept_room(described, tuple(kept), 1, source), Strategy()
    holding = [room for room in kept if room.expires_s is None or room.expires_s > at.timestamp()]
    seen, plain = snapshot_of(state, strategy, at), snapshot_of(described, strategy, at)
    assert plain is not None
    assert seen == reserved(plain, holding)
    ends = [room.expires_s for room in holding if room.expires_s is not None]
    assert due_at_of(state, strategy, at) == int(min([*ends, due_at_of(described, strategy, at)]))


def test_an_older_event_and_a_node_that_is_gone_change_nothing() -> None:
    early, late = InputSource("a", NOW), InputSource("b", datetime.fromtimestamp(FAR, UTC))
    kept = (KeptRoom("r", "batch", "BE", Resources(1000, 0)),)
    state = NodeState("n", described_by=early)
    held = with_kept_room(state, kept, 7, late)
    assert with_kept_room(held, (), 6, early) is held  # delivered late
    assert with_kept_room(held, (), 8, early).kept == ()  # the publisher's clock was set back
    assert with_kept_room(held, (), 1, InputSource("c", datetime.fromtimestamp(FAR + 1, UTC))).kept == ()  # anew
    unknown = NodeState("n")
    assert with_kept_room(unknown, (), 7, late) is unknown
