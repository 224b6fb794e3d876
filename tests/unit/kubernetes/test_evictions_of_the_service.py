"""The service in memory: evictions of documents reach the API server, and their ends the bus."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.unit.kubernetes.test_kubernetes_service import Cluster

from slackwater.apiserver.records import BUDGETS, PODS
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome, completion_id
from slackwater.events.intent_declared import Eviction, IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.model.nodes import API_SERVER, EVICTIONS_BY, CpuTopology, NodeFacts
from slackwater.model.quantities import Resources


class EvictingCluster(Cluster):
    """Node n0 leaves its evictions to the API server; n1 does not."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nodes=2, **settings)
        self.generation = 0

    async def describe(self, node: str, *, by_api_server: bool = True) -> None:
        size = Resources(8_000, 16 << 30)
        facts = NodeFacts(
            *(node, "default", size, Resources(0, 0), CpuTopology(8, 4, 1, 1), "6.1", "v2", "simulated", "1"),
            annotations={EVICTIONS_BY: API_SERVER} if by_api_server else {},
        )
        now = self.scene.clock.now()
        described = NodeDescribed(facts=facts, boot_epoch="b", described_at=now)
        await self.scene.bus.publish(event_of(described, source=node, time=now))

    def pod(self, name: str, node: str = "n0") -> str:
        metadata = {"namespace": "jobs", "name": name, "labels": {"app": name}}
        self.server.put(PODS, {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
        uid: str = self.server.document(PODS, f"jobs/{name}")["metadata"]["uid"]
        return uid

    def budget(self, app: str, allowed: int, name: str = "") -> None:
        self.server.put(
            BUDGETS,
            {
                "metadata": {"namespace": "jobs", "name": name or app},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": allowed},
            },
        )

    async def want(self, node: str, *uids: str, seconds: float = 60.0, waits: bool = True) -> None:
        """Ensurance wants these pods to be evicted, and no others."""
        self.generation += 1
        now = self.scene.clock.now()
        evictions = tuple(
            Eviction(
                id=f"d-{uid}",
                pod_uid=uid,
                grace_seconds=5,
                deadline=now + timedelta(seconds=seconds),
                reason="pressure",
                decision_id="d",
                waits=waits,
            )
            for uid in uids
        )
        document = IntentDeclared(
            node=node,
            writer="ensurance",
            generation=self.generation,
            declared_at=now,
            lease_seconds=15,
            evictions=evictions,
        )
        await self.scene.bus.publish(event_of(document, source="ensurance", time=now))
        await self.scene.advance(1)

    def ends(self) -> list[EvictionCompleted]:
        return [event.data for event in self.scene.bus.published if isinstance(event.data, EvictionCompleted)]


async def test_an_eviction_is_carried_out_and_its_end_is_published_once_as_the_agent_would() -> None:
    cluster = EvictingCluster()
    uid = cluster.pod("victim")
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", uid)
        assert cluster.server.evicted == [uid]
        assert cluster.ends() == []
        cluster.server.delete(PODS, "jobs/victim")
        await cluster.scene.advance(1)
        await cluster.scene.advance(60)
    (end,) = cluster.ends()
    assert (end.id, end.node, end.writer, end.outcome) == (f"d-{uid}", "n0", "ensurance", EvictionOutcome.TERMINATED)
    (event,) = (event for event in cluster.scene.bus.published if event.data is end)
    assert event.causedby is not None
    assert (event.id, event.source) == (completion_id("n0", end.id, event.causedby), "kubernetes")


async def test_nodes_whose_agent_evicts_are_left_to_it() -> None:
    cluster = EvictingCluster()
    uids = cluster.pod("one", "n0"), cluster.pod("two", "n1")
    async with cluster.running():
        await cluster.describe("n1", by_api_server=False)
        await cluster.want("n0", uids[0])  # not described yet
        await cluster.want("n1", uids[1])
        await cluster.scene.advance(120)
    assert (cluster.server.evicted, cluster.ends()) == ([], [])


async def test_a_budget_delays_an_eviction_until_it_allows_one() -> None:
    cluster = EvictingCluster()
    uid = cluster.pod("guarded")
    cluster.budget("guarded", 0)
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", uid)
        await cluster.scene.advance(10)
        assert cluster.server.evicted == []
        cluster.budget("guarded", 1)
        await cluster.scene.advance(12)
        assert cluster.server.evicted == [uid]


async def test_a_budget_that_allows_nothing_lets_the_eviction_expire() -> None:
    cluster = EvictingCluster()
    uid = cluster.pod("guarded")
    cluster.budget("guarded", 0)
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", uid, seconds=25)
        for _ in range(30):
            await cluster.scene.advance(1)
    (end,) = cluster.ends()
    assert (end.outcome, cluster.server.evicted) == (EvictionOutcome.EXPIRED, [])
    assert "disruption budget" in end.detail


async def test_evictions_that_do_not_wait_end_at_once_so_that_their_writer_takes_others() -> None:
    cluster = EvictingCluster()
    guarded, twice, free = cluster.pod("guarded"), cluster.pod("twice"), cluster.pod("free")
    cluster.budget("guarded", 0)
    cluster.budget("twice", 1)
    cluster.budget("twice", 1, name="other")
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", guarded, twice, free, waits=False)
    assert cluster.server.evicted == [free]
    ends = {end.pod_uid: end for end in cluster.ends()}
    assert ends.keys() == {guarded, twice}
    assert {end.outcome for end in ends.values()} == {EvictionOutcome.REFUSED}
    assert "disruption budget" in ends[guarded].detail
    assert "more than one PodDisruptionBudget" in ends[twice].detail


async def test_a_restart_goes_on_where_the_former_process_ended() -> None:
    cluster = EvictingCluster()
    uid = cluster.pod("victim")
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", uid)
    async with cluster.running():
        await cluster.scene.advance(5)
        assert cluster.server.evicted == [uid]
        cluster.server.delete(PODS, "jobs/victim")
        await cluster.scene.advance(1)
    assert [end.outcome for end in cluster.ends()] == [EvictionOutcome.TERMINATED]
    async with cluster.running():
        await cluster.scene.advance(5)
    assert len(cluster.ends()) == 1


async def test_without_the_api_server_an_eviction_is_tried_until_it_answers() -> None:
    cluster = EvictingCluster()
    uid = cluster.pod("victim")
    async with cluster.running():
        await cluster.describe("n0")
        with cluster.server.down():
            await cluster.want("n0", uid)
            await cluster.scene.advance(5)
        for _ in range(20):
            await cluster.scene.advance(1)
        assert cluster.server.evicted == [uid]


async def test_a_dry_run_evicts_nothing_and_says_so() -> None:
    cluster = EvictingCluster(evictions="dry-run")
    uid = cluster.pod("victim")
    async with cluster.running():
        await cluster.describe("n0")
        await cluster.want("n0", uid)
    assert [(end.outcome, cluster.server.evicted) for end in cluster.ends()] == [(EvictionOutcome.REFUSED, [])]
