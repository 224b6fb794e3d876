"""Random events about a few nodes and pods, so that they often speak of the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import CpuThrottle, Eviction, IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.events.measures import Distribution, PodUsage, Pressure, Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.rosters import roster_of
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.events.windowed_usage import WindowedPod, WindowedUsage
from slackwater.model.nodes import CpuTopology, Liveness, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
NODES = ("n1", "n2", "n3")
UIDS = ("a", "b", "c", "d")
WRITERS = ("ensurance", "quota")
IDS = ("e1", "e2", "e3")

seconds = st.integers(0, 60)
times = seconds.map(lambda second: EPOCH + timedelta(seconds=second))
resources = st.sampled_from([Resources(cpu, memory) for cpu, memory in ((0, 0), (5, 6), (7, 2**40), (-3, 8))])
small = st.integers(0, 3)
ratios = st.sampled_from((0.0, 0.5, 1.0))
nodes = st.sampled_from(NODES)
epochs = st.sampled_from(("boot-1", "boot-2"))
uids = st.sampled_from(UIDS)


pods = st.sampled_from(
    [
        Pod(uid, f"pod-{uid}", space, workload, tier, qos, 5, Resources(number, 7), EPOCH + timedelta(number), labels)
        for number, uid in enumerate(UIDS)
        for workload, space, tier, qos, labels in (
            ("w1", "x", Tier.PROD, QoSClass.LS, {}),
            ("w2", "x", Tier.BATCH, QoSClass.BE, {"team": "a"}),
            (f"w-{uid}", "y", Tier.MID, QoSClass.LSR, {}),
        )
    ]
)
"""Descriptions may change while a pod runs."""
distributions = st.sampled_from([Distribution(avg=value, count=count) for value in (0, 9, 2**40) for count in (0, 3)])
usages = st.builds(Usage, distributions, distributions)
pod_usages = st.builds(PodUsage, pod=pods, usage=usages, cpu_limit_milli=st.none() | small)
windowed = st.sampled_from(
    [WindowedUsage(1, 2, value, 4, 5, 6, value + 1, 8, samples) for value in (0, 30) for samples in (0, 60)]
)
topology = CpuTopology(4, 4, 1, 1)
facts = st.builds(
    NodeFacts,
    name=nodes,
    pool=st.sampled_from(("p1", "p2")),
    capacity=resources,
    reserved=resources,
    topology=st.just(topology),
    kernel=st.just("6.1"),
    cgroup_version=st.just("v2"),
    driver=st.just("simulated"),
    agent_version=st.just("test"),
)


def _by_uid(values: st.SearchStrategy[Any], uid_of: Any) -> st.SearchStrategy[Sequence[Any]]:
    return st.lists(values, max_size=4, unique_by=uid_of).map(tuple)


def _reports(kind: type[UsageReported]) -> st.SearchStrategy[UsageReported]:
    return st.builds(
        kind,
        node=nodes,
        boot_epoch=epochs,
        sequence=small,
        sampled_at=times,
        window_seconds=st.just(5.0),
        node_usage=usages,
        system_usage=st.none() | usages,
        prod_pressure=st.builds(Pressure, cpu_some_avg=st.none() | ratios),
        pods=_by_uid(pod_usages, lambda pod: pod.pod.uid),
    )


PAYLOADS: Sequence[st.SearchStrategy[Payload]] = (
    st.builds(NodeDescribed, facts=facts, boot_epoch=epochs, described_at=times),
    _reports(UsageReported),
    _reports(WaterlineCrossed),
    st.builds(
        PodsRostered,
        node=nodes,
        boot_epoch=epochs,
        sequence=small,
        rostered_at=times,
        slot=small,
        roster=_by_uid(pods, lambda pod: pod.uid).map(lambda running: roster_of(running, ())),
    ),
    st.builds(
        UsageWindowed,
        node=nodes,
        number=small,
        window_start=times,
        window_seconds=st.sampled_from((30, 60)),
        node_usage=windowed,
        system_usage=st.none() | windowed,
        tiers=st.just({}),
        pods=_by_uid(st.builds(WindowedPod, pods, windowed), lambda pod: pod.pod.uid),
        reports=small,
        gaps=small,
    ),
    st.builds(
        PeakPredicted,
        node=nodes,
        predicted_at=times,
        window_number=small,
        window_seconds=st.just(60),
        model=st.just("m"),
        samples=small,
        cold_start_share=ratios,
        confidence=ratios,
        node_peak=resources,
        system_peak=resources,
        tier_peaks=st.dictionaries(st.sampled_from([tier.value for tier in Tier]), resources),
        prod_peak=resources,
        prod_reclaimable=resources,
        pods=_by_uid(
            st.builds(PodPeak, uids, st.just("w"), st.just("prod"), resources, st.booleans()), lambda pod: pod.uid
        ),
        decision_id=st.just("d"),
    ),
    st.builds(
        ResourcesOffered,
        node=nodes,
        offered_at=times,
        generation=small,
        batch=resources,
        mid=resources,
        degraded=st.none() | st.just("old"),
        decision_ids=st.just({}),
    ),
    st.builds(
        IntentDeclared,
        node=nodes,
        writer=st.sampled_from(WRITERS),
        generation=small,
        epoch=small,
        declared_at=times,
        lease_seconds=st.just(30.0),
        throttles=_by_uid(st.builds(CpuThrottle, pod_uid=uids, cpu_limit_milli=small, decision_id=st.just("d")), id),
        evictions=_by_uid(
            st.builds(
                Eviction,
                id=st.sampled_from(IDS),
                pod_uid=uids,
                grace_seconds=st.just(1.0),
                deadline=st.sampled_from((EPOCH + timedelta(seconds=50), EPOCH + timedelta(seconds=500))),
                reason=st.just("r"),
                decision_id=st.just("d"),
            ),
            lambda eviction: eviction.id,
        ),
    ),
    st.builds(
        IntentObserved,
        node=nodes,
        writer=st.sampled_from(WRITERS),
        generation=small,
        boot_epoch=epochs,
        received_at=times,
        observed_at=times,
        limits=_by_uid(
            st.builds(ObservedLimit, pod_uid=uids, cpu_limit_milli=small, error=st.none() | st.just("gone")),
            lambda limit: limit.pod_uid,
        ),
    ),
    st.builds(
        EvictionCompleted,
        id=st.sampled_from(IDS),
        node=nodes,
        pod_uid=uids,
        writer=st.sampled_from(WRITERS),
        outcome=st.sampled_from(EvictionOutcome),
        completed_at=times,
        decision_id=st.just("d"),
    ),
    st.builds(
        NodeLivenessChanged,
        node=nodes,
        liveness=st.sampled_from(Liveness),
        previous=st.none(),
        last_report_at=times,
        changed_at=times,
    ),
    st.builds(
        NodeSchedulingChanged,
        node=nodes,
        closed=st.booleans(),
        reason=st.just("r"),
        decision_id=st.just("d"),
        rules=st.just(()),
        since=times,
        told_at=times,
        valid_until=st.none() | st.sampled_from((EPOCH + timedelta(seconds=90), EPOCH + timedelta(seconds=900))),
    ),
)


events: st.SearchStrategy[Event[Any]] = st.one_of(*PAYLOADS).map(
    lambda data: event_of(data, source="tests", time=EPOCH)
)
histories = st.lists(events, max_size=14)


def key_of(event: Event[Any]) -> tuple[str, str, str, str]:
    """The source of one node that an event belongs to; completions are each of their own."""
    data = event.data
    node = data.facts.name if isinstance(data, NodeDescribed) else data.node
    kind = PodsRostered if isinstance(data, UsageReported) else type(data)
    return node, kind.__name__, getattr(data, "writer", ""), getattr(data, "id", "")
