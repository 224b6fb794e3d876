"""How many pods a node takes: its own allocatable amount, for moves of the descheduler and rooms of reservations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.clock import EPOCH
from tests.support.reports import described, pod, report, usage

from slackwater.cluster.fold import ClusterFold
from slackwater.descheduler.domain.cluster_placement import placement_of
from slackwater.descheduling.low_node_load import LowNodeLoadArgs, LowNodeLoadPool
from slackwater.descheduling.placement import ClusterPlacement, free_for_requests
from slackwater.descheduling.placer import Placer
from slackwater.descheduling.profile import DeclaredProfile, ProfileScope
from slackwater.descheduling.profile_cycle import run_profile
from slackwater.events.envelope import event_of
from slackwater.events.measures import PodUsage
from slackwater.migration.domain.node_rooms import rooms_of
from slackwater.model.pods import PodStatus
from slackwater.model.quantities import Resources
from slackwater.reservations.placement import NodeRoom

HOT = 4


def fold_of(limit: int | None, there: int, **status: Any) -> ClusterFold:
    """`hot` has pods of one core each, `cool` so many idle ones; it takes `limit` (None: not reported)."""
    fold = ClusterFold()
    for name, resources in (("cool", {} if limit is None else {"pods": limit}), ("hot", {"pods": 110})):
        data = described(name, EPOCH, cpu_milli=4000)
        data = data.model_copy(update={"facts": replace(data.facts, resources=resources)})
        fold.apply(event_of(data, source="t", time=EPOCH))
    idle = [replace(pod(f"c{number}"), status=PodStatus(**status) if status else None) for number in range(there)]
    for name, pods, milli in (("cool", idle, 0), ("hot", [pod(f"h{number}") for number in range(HOT)], 950)):
        used = tuple(PodUsage(pod=replace(each, request=Resources(1, 1)), usage=usage(milli, 1)) for each in pods)
        data_used = report(name, 1, EPOCH, cpu_milli=milli * len(pods)).model_copy(update={"pods": used})
        fold.apply(event_of(data_used, source="t", time=EPOCH))
    return fold


def placement(fold: ClusterFold) -> ClusterPlacement:
    return placement_of(fold.view(EPOCH), ProfileScope())


def room(fold: ClusterFold) -> NodeRoom:
    rooms = rooms_of(fold.view(EPOCH), {"cool", "hot"}, (), {}, lower_yield=False, taken_off={})
    return next(each for each in rooms if each.node.name == "cool")


LIMITS: dict[str, tuple[int | None, int, int]] = {
    "of its own, and full": (3, 3, 0),
    "lowered below what it has": (3, 5, -2),
    "none at all, as of a node for one task": (0, 0, 0),
    "above the kubelet's default": (250, 120, 130),
    "one place": (4, 3, 1),
    "not reported: the kubelet's default": (None, 108, 2),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_node_takes_as_many_pods_as_it_says(name: str) -> None:
    limit, there, free = LIMITS[name]
    fold = fold_of(limit, there)
    cluster = placement(fold)
    (cool,) = (node for node in cluster.nodes if node.name == "cool")
    assert free_for_requests(cool, cluster.pods["cool"])["pods"] == free == room(fold).free["pods"]
    moving = cluster.pods["hot"][0]
    assert (Placer(cluster, 0.0).place(moving) == "cool") is (free > 0)
    load = LowNodeLoadArgs([LowNodeLoadPool("all", {"cpu": 40}, {"cpu": 50})], anomaly=None)
    plan = run_profile(cluster, DeclaredProfile("p", low_node_load=load), {}, {}, EPOCH.timestamp())
    assert len(plan.moves) == min(max(free, 0), 2), "two of four are above the threshold"


@pytest.mark.parametrize(("status", "free"), [({"terminating": True}, 0), ({"phase": "Pending"}, 0)])
def test_a_pod_that_ends_or_waits_for_its_image_takes_its_place(status: dict[str, Any], free: int) -> None:
    fold = fold_of(3, 3, **status)
    cluster = placement(fold)
    assert room(fold).free["pods"] == free
    assert (Placer(cluster, 0.0).place(cluster.pods["hot"][0]) is None) is (free == 0)
