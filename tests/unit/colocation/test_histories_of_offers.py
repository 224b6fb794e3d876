"""Random histories of a node: every published offer can be recomputed from its record, and keeps its bounds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from drawn import strategies
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.windows import START, described, usage

from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.usecases.node_updates import apply_description, apply_liveness, apply_peaks, apply_usage
from slackwater.colocation.usecases.recompute_offer import recompute
from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedPod
from slackwater.model.nodes import Liveness
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.offers.node import NodeState
from slackwater.offers.reservation import safety_margin
from slackwater.offers.strategy import MarginMode, MidMode, Strategy

UIDS = ("a", "b", "c", "d")
amounts = st.integers(0, 20_000)
WITHOUT_EXPLAINING = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
"""Hypothesis' search for the lines to blame takes longer than a test may."""


@dataclass(slots=True)
class Node:
    """One node in a history; everything published of it is checked."""

    state: NodeState = field(default_factory=lambda: NodeState("n"))
    strategy: Strategy = field(default_factory=Strategy)
    now: datetime = START
    number: int = 0
    offer: ResourcesOffered | None = None

    def take(self, learn: Callable[[NodeState, Event[Any]], NodeState] | None, data: Any = None) -> None:
        event = None if learn is None else event_of(data, source="test", time=self.now)
        known = self.state if learn is None or event is None else learn(self.state, event)
        self.state, events = recompute(known, FollowedStrategy(self.strategy, ("cluster@1",)), self.now, event)
        records = {each.data.record.id: each.data.record for each in events if isinstance(each.data, DecisionRecorded)}
        for each in events:
            if isinstance(each.data, ResourcesOffered):
                self.offer = each.data
                check_records(each.data, records)
        self.check()

    def check(self) -> None:
        """What is in force was published, and is within its bounds."""
        state, offer = self.state, self.offer
        if offer is None:
            assert (state.batch, state.mid) == (Resources(), Resources())
            return
        assert (state.batch, state.mid, state.degraded) == (offer.batch, offer.mid, offer.degraded)
        assert state.zones == {zone.name: zone.batch for zone in offer.zones}
        zones = sum((zone.batch for zone in offer.zones), Resources())
        assert zones == zones.smaller_of(offer.batch)
        assert min(offer.batch.cpu_milli, offer.batch.memory_bytes, offer.mid.cpu_milli, offer.mid.memory_bytes) >= 0
        for resource, name in (("cpu", "cpu_milli"), ("memory", "memory_bytes")):
            capacity, reserved = getattr(state.capacity, name), getattr(state.reserved, name)
            assert getattr(offer.batch, name) <= most_of_batch(resource, capacity, state.capacity, self.strategy)
            assert (
                getattr(offer.mid, name) <= max(0, capacity - reserved) * self.strategy.mid_threshold(resource) // 100
            )


def most_of_batch(resource: str, capacity: int, whole: Resources, strategy: Strategy) -> int:
    """Capacity within the thresholds."""
    if strategy.margin_mode is MarginMode.RESERVE:
        most = capacity - safety_margin(resource, whole, strategy)
    else:
        most = capacity * strategy.reclaim_threshold(resource) // 100
    own = strategy.batch_threshold(resource)
    return most if own is None else min(most, capacity * own // 100)


def check_records(offer: ResourcesOffered, records: dict[str, DecisionRecord]) -> None:
    """Each record of an offer says what the offer says, stands on what it names, and gives the same again."""
    named = {subject: records.pop(identity) for subject, identity in offer.decision_ids.items()}
    assert not records
    for subject, record in named.items():
        tier, resource = subject.split("-")
        amount = offer.mid if tier == "mid" else offer.batch
        assert record.result == (amount.cpu_milli if resource == "cpu" else amount.memory_bytes)
        assert record.reason == offer.reason
        again = DecisionRecord.model_validate_json(record.model_dump_json())
        module, name = again.replay.function.split(":")
        assert getattr(importlib.import_module(module), name)(**again.replay.arguments) == record.result
    if "mid-cpu" not in named:
        assert offer.mid == Resources()


Step = Callable[[Node], None]


@st.composite
def windows(draw: st.DrawFn) -> Step:
    chosen = draw(st.lists(st.sampled_from(UIDS), unique=True))
    pods = [(uid, draw(pods_of), draw(amounts), draw(st.booleans())) for uid in chosen]
    system, gaps, minutes = draw(st.none() | st.integers(0, 500)), draw(st.integers(0, 20)), draw(st.integers(1, 3))

    def happen(node: Node) -> None:
        node.number += minutes
        node.now = START + timedelta(minutes=node.number + 1, seconds=2)
        total = sum(cpu for _, _, cpu, _ in pods) + (system or 0)
        data = UsageWindowed(
            node="n",
            number=node.number,
            window_start=START + timedelta(minutes=node.number),
            window_seconds=60,
            node_usage=usage(total, total),
            system_usage=None if system is None else usage(system, system),
            tiers={},
            pods=tuple(WindowedPod(make(uid), usage(cpu, cpu, 60 * seen)) for uid, make, cpu, seen in pods),
            reports=12,
            gaps=gaps,
        )
        node.take(apply_usage, data)

    return happen


@st.composite
def pods_made(draw: st.DrawFn) -> Callable[[str], Pod]:
    tier, qos = draw(st.sampled_from(Tier)), draw(st.sampled_from(QoSClass))
    request, started = Resources(draw(amounts), draw(amounts)), START + timedelta(seconds=draw(st.integers(-300, 300)))
    return lambda uid: Pod(uid, uid, "default", f"w-{uid}", tier, qos, 9000, request, started)


pods_of = pods_made()


@st.composite
def predictions(draw: st.DrawFn) -> Step:
    chosen = draw(st.lists(st.sampled_from(UIDS), unique=True))
    peaks = [(uid, Resources(draw(amounts), draw(amounts)), draw(st.booleans())) for uid in chosen]

    def happen(node: Node) -> None:
        nothing = Resources()
        data = PeakPredicted(
            node="n",
            predicted_at=node.now,
            window_number=node.number,
            window_seconds=60,
            model="m",
            samples=1,
            cold_start_share=0.0,
            node_peak=nothing,
            system_peak=nothing,
            tier_peaks={},
            prod_peak=sum((peak for _, peak, _ in peaks), nothing),
            prod_reclaimable=nothing,
            pods=tuple(PodPeak(uid, uid, "prod", peak, cold) for uid, peak, cold in peaks),
            decision_id="d",
        )
        node.take(apply_peaks, data)

    return happen


@st.composite
def others(draw: st.DrawFn) -> Step:
    what = draw(st.sampled_from(["describe", "lost", "fresh", "age", "strategy"]))
    cpu, zones, seconds = draw(st.integers(1000, 60_000)), draw(st.integers(1, 3)), draw(st.integers(1, 1000))
    strategy = draw(strategies)

    def happen(node: Node) -> None:
        if what == "strategy":
            node.strategy = strategy
            node.take(None)
        elif what == "age":
            node.now += timedelta(seconds=seconds)
            node.take(None)
        elif what == "describe":
            data = described("n", cpu, cpu, zones=zones).data.model_copy(update={"described_at": node.now})
            node.take(apply_description, data)
        else:
            liveness = Liveness(what)
            at = {"last_report_at": node.now, "changed_at": node.now}
            node.take(apply_liveness, NodeLivenessChanged(node="n", liveness=liveness, previous=None, **at))

    return happen


steps = windows() | windows() | predictions() | predictions() | others()


@settings(max_examples=100, deadline=None, phases=WITHOUT_EXPLAINING)
@given(strategies, st.lists(steps, max_size=12))
def test_every_published_offer_of_a_history_can_be_recomputed_from_its_record(
    strategy: Strategy, history: Sequence[Step]
) -> None:
    node = Node(strategy=replace(strategy, enabled=True))
    data = described("n", 50_000, 50_000, zones=2).data
    node.take(apply_description, data)
    for step in history:
        step(node)
        before = node.offer
        for _ in range(2):
            node.take(None)
            assert node.offer is before  # asked again at the same moment, there is no news


@settings(max_examples=100, deadline=None, phases=WITHOUT_EXPLAINING)
@given(st.lists(windows() | predictions(), min_size=3, max_size=10), st.sampled_from([MidMode.DYNAMIC, MidMode.OFF]))
def test_machines_with_room_offer_something_in_the_end(history: Sequence[Step], mode: MidMode) -> None:
    """Without it, the histories above could be of machines that never have anything to tell."""
    node = Node(
        strategy=Strategy(
            mid_mode=mode, cpu_reclaim_threshold_percent=100, decay_from_seconds=1e6, decay_to_seconds=2e6
        )
    )
    node.take(apply_description, described("n", 400_000, 400_000, zones=2).data)
    for step in [*history, *history]:
        step(node)
    if node.state.used_by is not None and node.state.degraded is None:
        assert node.offer is not None
        assert node.offer.batch.cpu_milli + node.offer.mid.cpu_milli > 0


def measure(node: Node, number: int, cpu: int) -> None:
    """A window in which a prod pod without a prediction and without a request uses this amount."""
    node.number, node.now = number, START + timedelta(minutes=number + 1, seconds=2)
    pod = Pod("p", "p", "default", "w", Tier.PROD, QoSClass.LS, 9000, Resources(), START)
    used, nothing = usage(cpu, cpu), usage(0, 0)
    data = UsageWindowed(
        node="n",
        number=number,
        window_start=START + timedelta(minutes=number),
        window_seconds=60,
        node_usage=used,
        system_usage=nothing,
        tiers={},
        pods=(WindowedPod(pod, used),),
        reports=12,
        gaps=0,
    )
    node.take(apply_usage, data)


def steady() -> Node:
    node = Node(strategy=Strategy(mid_mode=MidMode.DYNAMIC, update_time_threshold_seconds=1e9))
    node.take(apply_description, described("n", 100_000, 100_000).data)
    return node


@given(st.lists(st.integers(20_000, 23_000), min_size=1, max_size=12))
def test_noise_within_the_threshold_is_published_once(usages: Sequence[int]) -> None:
    """Offered are 60 % of 100 cores less the usage: 37 to 40 cores, which is less than 10 % apart."""
    node = steady()
    for number, cpu in enumerate(usages):
        measure(node, number, cpu)
        assert node.offer is not None
        assert node.offer.generation == 1


@given(st.lists(st.integers(0, 60_000), min_size=2, max_size=20))
def test_drops_are_published_at_once_and_rises_only_as_far_as_they_have_lasted(usages: Sequence[int]) -> None:
    node, left, told = steady(), [max(0, 60_000 - cpu) for cpu in usages], []
    for number, cpu in enumerate(usages):
        measure(node, number, cpu)
        assert node.offer is not None
        told.append(node.offer.batch.cpu_milli)
    for place in range(1, len(told)):
        if told[place] > told[place - 1]:
            assert told[place] == min(left[place - 1], left[place])
        assert told[place] * 0.9 <= left[place] or told[place] == left[place]


@given(st.integers(0, 20_000), st.integers(30_000, 60_000), st.integers(1, 6))
def test_usage_that_flaps_has_offers_that_do_not(low: int, high: int, rounds: int) -> None:
    node = steady()
    for number in range(2 * rounds):
        measure(node, number, high if number % 2 else low)
    assert node.offer is not None
    assert node.offer.generation <= 2
    assert node.offer.batch.cpu_milli == 60_000 - high
