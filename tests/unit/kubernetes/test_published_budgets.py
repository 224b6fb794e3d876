"""Disruption budgets of the cluster are published when they change, and once as gone when they are deleted."""

from __future__ import annotations

from typing import Any

from test_kubernetes_service import Cluster

from slackwater.apiserver.records import BUDGETS
from slackwater.events.disruption_budget_changed import DisruptionBudgetChanged

SELECTOR = {"matchLabels": {"app": "web"}}


def put(cluster: Cluster, name: str, allowed: int, **spec: Any) -> None:
    status = {"disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3}
    metadata = {"namespace": "shop", "name": name}
    cluster.server.put(BUDGETS, {"metadata": metadata, "spec": spec, "status": status})


def published(cluster: Cluster) -> list[DisruptionBudgetChanged]:
    return [event.data for event in cluster.scene.bus.published if event.data.TYPE == DisruptionBudgetChanged.TYPE]


async def test_each_change_is_published_once_and_the_end_too() -> None:
    cluster = Cluster(nodes=1)
    put(cluster, "web", 1, selector=SELECTOR, minAvailable="60%")
    put(cluster, "none", 0, maxUnavailable=1)  # without a selector it selects no pod
    async with cluster.running():
        await cluster.scene.advance(3)
        [first] = published(cluster)
        assert (first.key(), first.selector, first.min_available, first.max_unavailable) == (
            "shop/web", SELECTOR, "60%", "",
        )  # fmt: skip
        assert (first.expected, first.healthy, first.allowed, first.gone) == (3, 3, 1, False)
        put(cluster, "web", 0, selector=SELECTOR, minAvailable=2)
        await cluster.scene.advance(3)
        assert [(each.min_available, each.allowed) for each in published(cluster)] == [("60%", 1), ("2", 0)]
    cluster.server.delete(BUDGETS, "shop/web")  # while no replica runs
    async with cluster.running():
        await cluster.scene.advance(3)
        assert [each.gone for each in published(cluster)] == [False, False, True]


async def test_a_budget_that_no_reader_takes_is_left_out_and_stops_no_other() -> None:
    cluster = Cluster(nodes=1)
    wide = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"] * 70_000}]}
    put(cluster, "a-wide", 1, selector=wide)
    put(cluster, "web", 1, selector=SELECTOR)
    async with cluster.running():
        await cluster.scene.advance(3)
        assert [each.name for each in published(cluster)] == ["web"]
        put(cluster, "a-wide", 1, selector=SELECTOR)
        await cluster.scene.advance(3)
        assert [each.name for each in published(cluster)] == ["web", "a-wide"]
