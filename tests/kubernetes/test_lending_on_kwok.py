"""A small cluster of kwok's nodes: lent resources place pods, refuse what is too much, and evictions keep budgets.

The same as `make bench ARGS="--only kubernetes"` on twenty nodes; offers and decisions come from the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane, running
from tests.kubernetes.drivers import RealDriver
from tests.kubernetes.kwok import CPU, MEMORY, PARTS, PRIORITIES, PROGRAMS, KwokCluster, batch_pod, kwok_cluster
from tests.kubernetes.test_evictions_on_api_server import EvictingSite, refusals
from tests.kubernetes.test_service_on_api_server import until

from slackwater.apiserver.records import PodRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.eviction_completed import EvictionOutcome

GIB = 1 << 30
NODES = [f"lends-{number:02d}" for number in range(20)]
LENT_MILLI, LENT_BYTES = 6_000, 16 * GIB
POD_MILLI, POD_BYTES = 2_000, 4 * GIB
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def kwok_plane(servers_home: Path) -> Iterator[ControlPlane]:
    made = this_build()
    if not made.has(PROGRAMS):
        pytest.skip("scheduling needs a scheduler: `make kubernetes` builds one")
    with running(made.folder, servers_home / "kwok", PARTS) as plane:
        yield plane


@pytest.fixture
async def lending(kwok_plane: ControlPlane) -> AsyncIterator[KwokCluster]:
    async with kwok_cluster(kwok_plane.kubeconfig) as cluster:
        yield cluster


async def test_pods_are_placed_refused_and_evicted_within_budgets(
    lending: KwokCluster, kwok_plane: ControlPlane
) -> None:
    site = EvictingSite(RealDriver(lending.api, lending.admin, kwok_plane.kubeconfig))
    await lending.add_nodes(NODES)
    async with site.running() as service:
        for node in NODES:
            await site.offer(node, LENT_MILLI, LENT_BYTES)
        lent = {CPU: LENT_MILLI, MEMORY: LENT_BYTES}
        await until(lambda: all(dict(service.inventory.nodes[node].lent) == lent for node in NODES))

        await place(lending)
        await refuse(lending)

        await lending.set_budget("index", len(NODES) - 2)
        await lending.until(lambda: allows(lending, "index", 2), "the budget is counted")
        lending.log.count_from_now()
        for node in NODES:
            await site.offer(node, 0, 0)
        await until(lambda: not any(service.inventory.nodes[node].lent for node in NODES))
        for node in NODES[:4]:
            await site.want(*sorted(lending.log.by_node()[node], key=lambda pod: (pod.priority, pod.uid)))
        await lending.until(lambda: len(evicted(lending)) == 4 * 2 + 2, "pods are evicted")
        await until(lambda: len(refusals(service)) == 2 and len(site.outcomes()) == 10)
    gone = evicted(lending)
    assert lending.log.fewest["index"] == len(NODES) - 2, "no more than the budget allows"
    assert sum(pod.priority == PRIORITIES["batch-low"] for pod in gone) == 4 * 2, "what no budget holds goes"
    assert {pod.node for pod in gone} == set(NODES[:4]), "pods of other nodes stay"
    writes = await lending.writes()
    assert writes["node status"] == len(NODES), "one apply lends"
    recorded = [event.data for event in site.bus.published if isinstance(event.data, DecisionRecorded)]
    reasons = Counter(str(data.record.reason) for data in recorded)
    assert reasons == dict.fromkeys(("status_offer_changed", "status_offer_withdrawn"), len(NODES)), "one withdraws"
    assert writes["evictions"] == len(gone), "each was accepted once"
    assert writes["evictions refused"] >= 2
    assert site.outcomes() == [EvictionOutcome.TERMINATED] * len(gone)


def evicted(lending: KwokCluster) -> list[PodRecord]:
    """The pods that were deleted, without the one that was never placed."""
    return [entry.pod for entry in lending.log.gone if entry.pod.node]


async def place(lending: KwokCluster) -> None:
    """Three pods of each node, of which the scheduler knows only what is lent there."""
    await lending.add_pods(
        batch_pod(f"{app}-{node}-{number}", app, priority, POD_MILLI, POD_BYTES, node=node)
        for node in NODES
        for number, (app, priority) in enumerate(
            [("index", "batch-high"), ("crunch", "batch-low"), ("crunch", "batch-low")]
        )
    )
    await lending.until(lambda: sum(map(len, lending.log.by_node().values())) == 3 * len(NODES), "pods are placed")


async def refuse(lending: KwokCluster) -> None:
    """A pod more than a node lends."""
    await lending.add_pods([batch_pod("too-large", "large", "batch-low", 1, GIB, node=NODES[0])])
    await lending.until(lambda: refused(lending), "the scheduler refuses")
    assert f"Insufficient {CPU}" in await lending.unscheduled("too-large")
    await lending.remove_pod("too-large")


async def refused(lending: KwokCluster) -> bool:
    return bool(await lending.unscheduled("too-large"))


async def allows(lending: KwokCluster, app: str, count: int) -> bool:
    return await lending.allowed(app) == count
