"""A target takes a pod only where a reservation for it would find room: proposed moves can begin."""

from __future__ import annotations

from dataclasses import replace

from drawn_cluster import cluster, node, pod
from hypothesis import given
from hypothesis import strategies as st

from slackwater.descheduling.load_limits import LimitedTargets
from slackwater.descheduling.node_classes import NodeLoad
from slackwater.descheduling.placement import PlacedPod
from slackwater.descheduling.placer import Placer
from slackwater.model.tiers import Tier
from slackwater.reservations.placement import room_of

LIMITS = {"cpu": 800, "memory": 850}
SHARES = {"cpu": 0.8, "memory": 0.85}
peaks = st.fixed_dictionaries({"cpu": st.integers(0, 500), "memory": st.integers(0, 500)})
tiers = st.sampled_from([Tier.PROD, Tier.MID, Tier.BATCH, Tier.FREE])
drawn = st.lists(st.tuples(tiers, peaks), max_size=6)


def target(pods: list[PlacedPod], **more: object) -> NodeLoad:
    limited = node("n1", load_limits=LIMITS, **more)
    return NodeLoad(limited, pods, {}, {}, {}, {}, {}, {})


@given(running=drawn, coming=drawn, system=peaks)
def test_it_is_the_headroom_that_migration_computes(
    running: list[tuple[Tier, dict[str, int]]], coming: list[tuple[Tier, dict[str, int]]], system: dict[str, int]
) -> None:
    pods = [pod(f"r{number}", "n1", tier=tier, peak=peak) for number, (tier, peak) in enumerate(running)]
    targets = LimitedTargets([target(pods, system_peak=system)])
    for number, (tier, peak) in enumerate(coming):
        new = pod(f"c{number}", "n1", tier=tier, peak=peak)
        lower = tier in (Tier.BATCH, Tier.FREE)
        counted = pods if lower else [one for one in pods if one.tier in (Tier.PROD, Tier.MID)]
        headroom = room_of(node("n1", system_peak=system), counted, (), SHARES).headroom
        fits = all(headroom[name] >= peak[name] for name in LIMITS)
        assert bool(targets.fits(new)[0]) == fits
        if fits:
            targets.reserve(new, 0)
            pods.append(new)


def test_a_node_without_limits_takes_what_its_thresholds_allow() -> None:
    large = pod("large", peak={"cpu": 950, "memory": 10})
    free = Placer(cluster([node("n0"), node("n1")], [large]), 0.0)
    assert free.place(large) == "n1"
    limited = Placer(cluster([node("n0"), node("n1", load_limits=LIMITS)], [large]), 0.0)
    assert limited.place(large) is None
    unknown = replace(large, peak=None, requests={"batch-cpu": 801})
    assert not LimitedTargets([target([])]).fits(unknown)[0], "without a prediction its requests count"
