"""The service in memory, as its composition root builds it: offers arrive, node status follows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from tests.support.api_server import MemoryApiServer
from tests.support.scene import Scene

from slackwater.apiserver.records import NODES, PODS, parse_node
from slackwater.events.envelope import event_of
from slackwater.events.resources_offered import ResourcesOffered, StatusOffered
from slackwater.kubernetes.service import KubernetesService
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.uninstall import withdraw_all
from slackwater.model.quantities import Resources
from slackwater.runtime.platform import Platform

GIB = 1 << 30
CPU, MEMORY, MID = "slackwater.io/batch-cpu", "slackwater.io/batch-memory", "slackwater.io/mid-cpu"
PATIENCE_SECONDS = 1.0


class Cluster:
    """The twin of an API server, the scene around it, and offers as colocation publishes them."""

    def __init__(self, nodes: int = 3, server: MemoryApiServer | None = None, **settings: Any) -> None:
        self.server, self.scene = server or MemoryApiServer(), Scene()
        self.settings = KubernetesSettings(orphan_seconds=20.0, **settings)
        self._generation = 0
        for number in range(nodes):
            self.server.put(NODES, {"metadata": {"name": f"n{number}"}, "status": {"allocatable": {"cpu": "8"}}})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubernetesService]:
        async def nothing() -> None:
            """The twin needs no connection."""

        def build(settings: KubernetesSettings, platform: Platform) -> KubernetesService:
            return KubernetesService(settings, platform, self.server, nothing, nothing)

        async with self.scene.running(build, self.settings) as service:
            await self.scene.advance(PATIENCE_SECONDS)
            yield service

    async def offer(self, node: str, cpu: int, memory: int, mid_cpu: int = 0, **more: Any) -> None:
        self._generation += 1
        subjects = ["batch-cpu", "batch-memory", *(["mid-cpu", "mid-memory"] if mid_cpu else [])]
        now = self.scene.clock.now()
        offered = ResourcesOffered(
            node=node,
            offered_at=now,
            generation=self._generation,
            batch=Resources(cpu, memory),
            mid=Resources(mid_cpu, 0),
            degraded=more.pop("degraded", None),
            decision_ids={subject: f"decision-{subject}" for subject in subjects},
            **more,
        )
        await self.scene.bus.publish(event_of(offered, source="colocation", time=now))
        await self.scene.advance(PATIENCE_SECONDS)

    def lent(self, node: str) -> Mapping[str, int]:
        return dict(parse_node(self.server.document(NODES, node)).lent)

    def records(self) -> list[Any]:
        return [event.data.record for event in self.scene.bus.published if event.data.TYPE == "decision.recorded"]


async def test_offers_appear_change_and_are_withdrawn_each_with_one_write_and_a_record() -> None:
    cluster = Cluster()
    async with cluster.running():
        await cluster.offer("n1", 12_000, 8 * GIB, mid_cpu=500)
        assert cluster.lent("n1") == {CPU: 12_000, MEMORY: 8 * GIB, MID: 500, "slackwater.io/mid-memory": 0}
        assert cluster.lent("n0") == {}
        await cluster.offer("n1", 9_000, 8 * GIB)
        assert cluster.lent("n1") == {CPU: 9_000, MEMORY: 8 * GIB}
        await cluster.offer("n1", 0, 0, degraded="usage is 900 s old")
        assert cluster.lent("n1") == {}
    assert [quantities.get(CPU) for _, quantities in cluster.server.patches] == ["12k", "9k", None]
    assert [record.reason for record in cluster.records()] == [
        *("status_offer_changed", "status_offer_changed", "status_offer_withdrawn")
    ]


async def test_an_equal_offer_and_changes_of_others_cause_no_write() -> None:
    cluster = Cluster()
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
        await cluster.offer("n0", 5_000, GIB)
        node = cluster.server.document(NODES, "n0")
        node["metadata"]["labels"] = {"zone": "a"}
        cluster.server.put(NODES, node)
        await cluster.scene.advance(60)
    assert len(cluster.server.patches) == 1


async def test_the_value_for_the_status_goes_before_the_offer() -> None:
    cluster = Cluster()
    async with cluster.running():
        status = StatusOffered(Resources(7_000, GIB), Resources(7_500, GIB), "1.5")
        await cluster.offer("n0", 5_000, GIB, status=status)
        assert cluster.lent("n0") == {CPU: 7_000, MEMORY: GIB}


async def test_a_restart_reads_offers_again_and_writes_nothing() -> None:
    cluster = Cluster()
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
    async with cluster.running():
        await cluster.scene.advance(60)
    assert len(cluster.server.patches) == 1


async def test_what_is_there_without_any_offer_is_withdrawn_after_a_while() -> None:
    cluster = Cluster()
    node = parse_node(cluster.server.document(NODES, "n0"))
    await cluster.server.apply_lent(node, {CPU: 4_000}, force=False)
    async with cluster.running():
        await cluster.scene.advance(15)
        assert cluster.lent("n0") == {CPU: 4_000}
        await cluster.scene.advance(10)
        assert cluster.lent("n0") == {}


async def test_disabled_by_setting_it_withdraws_and_writes_no_offer() -> None:
    cluster = Cluster()
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
    cluster.settings = KubernetesSettings(write_offers=False)
    async with cluster.running():
        assert cluster.lent("n0") == {}
        await cluster.offer("n0", 6_000, GIB)
        assert cluster.lent("n0") == {}


async def test_amounts_that_the_kubelet_sets_to_zero_come_back() -> None:
    cluster = Cluster()
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
        cluster.server.write_lent("n0", "kubelet", {CPU: 0})
        await cluster.scene.advance(PATIENCE_SECONDS)
        assert cluster.lent("n0") == {CPU: 5_000, MEMORY: GIB}


async def test_what_another_controller_owns_is_named_and_the_others_are_written() -> None:
    cluster = Cluster()
    cluster.server.write_lent("n0", "koord-manager", {CPU: 1_000})
    cluster.server.register("n1")
    cluster.server.write_lent("n1", "koord-manager", {CPU: 1_000})
    async with cluster.running() as service:
        for memory in (158 * GIB, 58 * GIB):
            for node in ("n0", "n1"):
                await cluster.offer(node, 5_000, memory)
                assert cluster.lent(node) == {CPU: 1_000, MEMORY: memory}, "what falls lands"
        checks = {check.name: check for check in await service.checks()}
        assert checks["kubernetes-status"].detail == (
            f"refused for 2 nodes: n0: {CPU} belongs to before-first-apply and is left;"
            f" n1: {CPU} belongs to koord-manager and is left"
        )
        left = next(entry for entry in cluster.records()[-1].inputs if entry.name == f"left {CPU}")
        assert (left.value, cluster.records()[-1].node) == ("koord-manager", "n1")
        await cluster.scene.advance(60)
        assert len(cluster.records()) == 4, "one for each change"
        for node in ("n0", "n1"):
            await cluster.offer(node, 0, 0, degraded="usage is 900 s old")
            assert cluster.lent(node) == {CPU: 1_000}
    done = await withdraw_all(cluster.server, wait_seconds=0)
    assert done.left == (f"{CPU} of node n0 (before-first-apply)", f"{CPU} of node n1 (koord-manager)")
    assert done.nodes == ()


async def test_a_server_that_was_away_gets_the_newest_offer_only() -> None:
    cluster = Cluster()
    async with cluster.running() as service:
        with cluster.server.down():
            for cpu in range(1, 6):
                await cluster.offer("n0", cpu * 1_000, GIB)
        await cluster.scene.advance(60)
        assert cluster.lent("n0")[CPU] == 5_000
        assert service.status.refusals == {}
    assert len(cluster.server.patches) == 1


async def test_a_node_that_was_created_anew_gets_its_offer_again() -> None:
    cluster = Cluster()
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
        cluster.server.delete(NODES, "n0")
        cluster.server.put(NODES, {"metadata": {"name": "n0"}})
        await cluster.scene.advance(PATIENCE_SECONDS)
        assert cluster.lent("n0") == {CPU: 5_000, MEMORY: GIB}


async def test_readiness_counts_what_was_read() -> None:
    cluster = Cluster()
    cluster.server.put(PODS, {"metadata": {"namespace": "a", "name": "p"}})
    cluster.server.forbidden.add("jobs")
    async with cluster.running() as service:
        check = next(check for check in await service.checks() if check.name == "kubernetes-inventory")
        assert (check.ok, check.detail) == (False, "not listed yet: jobs; jobs: jobs is forbidden")
        await cluster.offer("n0", 5_000, GIB)
        assert cluster.lent("n0")[CPU] == 5_000
        cluster.server.forbidden.clear()
        await cluster.scene.advance(60)
        check = next(check for check in await service.checks() if check.name == "kubernetes-inventory")
        assert (check.ok, check.detail) == (True, "3 nodes, 1 pod")


async def test_nothing_is_written_before_pods_are_known() -> None:
    cluster = Cluster()
    cluster.server.forbidden.add("pods")
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
        assert cluster.lent("n0") == {}
        cluster.server.forbidden.clear()
        await cluster.scene.advance(60)
        assert cluster.lent("n0")[CPU] == 5_000


async def test_uninstall_leaves_what_was_there_before_and_sees_a_service_that_still_runs() -> None:
    cluster = Cluster()
    cluster.server.write_lent("n0", "koord-manager", {"kubernetes.io/batch-cpu": 700})
    before = {name: cluster.server.document(NODES, name)["status"] for name in ("n0", "n1", "n2")}
    async with cluster.running():
        await cluster.offer("n0", 5_000, GIB)
        await cluster.offer("n1", 5_000, GIB)
        assert (await withdraw_all(cluster.server, dry_run=True)).nodes == ("n0", "n1")
        assert cluster.lent("n1")
    done = await withdraw_all(cluster.server, wait_seconds=0)
    assert (done.nodes, done.written_again) == (("n0", "n1"), ())
    after = {name: cluster.server.document(NODES, name)["status"] for name in before}
    assert {name: status["allocatable"] for name, status in after.items() if "allocatable" in status} == {
        name: status["allocatable"] for name, status in before.items() if "allocatable" in status
    }


def test_the_pause_before_withdrawal_is_longer_than_a_restart_takes() -> None:
    assert timedelta(seconds=KubernetesSettings().orphan_seconds) >= timedelta(minutes=1)


async def test_pods_that_ask_for_more_than_a_number_holds_stop_no_status() -> None:
    cluster = Cluster()
    for number in range(3):
        resources = {"limits": {CPU: "9E", MEMORY: "1e40"}}
        metadata = {"namespace": "a", "name": f"greedy-{number}"}
        spec = {"nodeName": "n0", "containers": [{"resources": resources}]}
        cluster.server.put(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    async with cluster.running():
        for node in ("n0", "n1"):
            await cluster.offer(node, 5_000, GIB)
            assert cluster.lent(node) == {CPU: 5_000, MEMORY: GIB}
    assert [record.node for record in cluster.records()] == ["n0", "n1"]
