"""What hypothesis draws for the formulas of colocation: nodes, strategies, gates; any of them may come together."""

from __future__ import annotations

from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import HostApp, NodeSnapshot, PodInput, Zone
from slackwater.offers.strategy import CountingPolicy, MarginMode, MidMode, Strategy

amounts = st.integers(0, 50_000)
resources = st.builds(Resources, amounts, amounts)
pods = st.builds(
    PodInput,
    uid=st.uuids().map(str),
    tier=st.sampled_from(["prod", "mid", "batch", "free", ""]),
    qos=st.sampled_from(["LSE", "LSR", "LS", "BE"]),
    request=resources,
    usage=st.none() | resources,
    predicted=st.none() | resources,
    cold=st.booleans(),
    numa=st.sets(st.integers(0, 4), max_size=3).map(tuple),
    listed=st.booleans(),
    bound_seconds_ago=st.none() | st.floats(0, 300),
)
apps = st.builds(HostApp, st.just("app"), st.sampled_from(["prod", "mid", "batch", "free", ""]), resources)
zones = st.builds(Zone, st.sampled_from("abcd"), resources)
snapshots = st.builds(
    NodeSnapshot,
    capacity=resources,
    reserved=resources,
    pods=st.lists(pods, max_size=5).map(tuple),
    system=st.none() | resources,
    system_is_current=st.booleans(),
    age_seconds=st.floats(0, 2000),
    lost=st.booleans(),
    host_apps=st.lists(apps, max_size=2).map(tuple),
    zones=st.lists(zones, max_size=4, unique_by=lambda zone: zone.name).map(tuple),
    allocatable=st.none() | resources,
    node_usage=st.none() | resources,
    prod_peak=st.none() | resources,
)
percents = st.integers(0, 150)
shares = st.integers(0, 100)
strategies = st.builds(
    Strategy,
    cpu_reclaim_threshold_percent=percents,
    memory_reclaim_threshold_percent=percents,
    reserved=st.just(Resources()) | resources,
    cold_start_holds_request=st.booleans(),
    diff_threshold=st.floats(0.01, 0.5),
    rise_windows=st.integers(1, 4),
    update_time_threshold_seconds=st.sampled_from([1.0, 60.0, 300.0]),
    enabled=st.sampled_from([True, True, True, False]),
    cpu_policy=st.sampled_from(CountingPolicy),
    memory_policy=st.sampled_from(CountingPolicy),
    margin_mode=st.sampled_from(MarginMode),
    batch_cpu_threshold_percent=st.none() | percents,
    batch_memory_threshold_percent=st.none() | percents,
    mid_mode=st.sampled_from(MidMode),
    mid_reclaim_ratio_percent=shares,
    mid_cpu_threshold_percent=shares,
    mid_memory_threshold_percent=shares,
    mid_unallocated_percent=shares,
    mid_static_cpu_reserved_percent=shares,
    mid_static_memory_reserved_percent=shares,
)
gates = st.builds(PublishGate, st.none() | amounts, st.integers(0, 3), amounts, st.integers(0, 100))
kinds = st.sampled_from(["cpu", "memory"])
