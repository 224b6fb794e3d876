"""The service kubernetes while the API server is slow, loses answers, cuts watches, or comes back older.

Of each fault the ledger is read afterwards: every eviction has one outcome and was carried out once, and no write
changed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kubernetes.api_proxy import ApiProxy, api_proxy
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.drivers import RealDriver, real_driver
from tests.kubernetes.test_api_server_port import pod
from tests.kubernetes.test_evictions_on_api_server import EvictingSite, refusals
from tests.kubernetes.test_service_on_api_server import CPU, GIB, MEMORY, until
from tests.kubernetes.write_ledger import RecordingServer, WriteLedger

from slackwater.apiserver.records import KINDS, NODES, PODS, PRIORITY_CLASSES, PodRecord, parse_node
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.kubernetes.service import KubernetesService
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.choose_admission import ProfileMode
from slackwater.model.time import Clock


class FaultySite(EvictingSite):
    """The service behind a proxy, with a ledger of its writes."""

    def __init__(self, cluster: RealDriver, kubeconfig: Path, clock: Clock | None = None) -> None:
        super().__init__(cluster, clock)
        self.ledger = WriteLedger()
        self.wanted: list[str] = []
        self._server = RecordingServer(str(kubeconfig), self.ledger, clock or self.clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubernetesService]:
        settings, server = KubernetesSettings(profiles=ProfileMode.OFF), self._server
        service = KubernetesService(settings, self._platform, server, server.connect, server.close)
        async with self.started(service) as running:
            yield running

    async def node(self, stem: str) -> str:
        name = await super().node(stem)
        self.ledger.note_present(name, parse_node(await self.cluster.document(NODES, name)).version)
        return name

    async def want(self, *victims: PodRecord, seconds: float = 120.0, waits: bool = True, name: str = "d") -> None:
        self.wanted += [f"{name}-{victim.uid}" for victim in victims]
        await super().want(*victims, seconds=seconds, waits=waits, name=name)

    async def end(self, *victims: PodRecord) -> None:
        """End pods as their kubelet does, and wait until that is published."""
        expected = len(self.outcomes()) + len(victims)
        for victim in victims:
            await self.cluster.delete(PODS, victim.key)
        await until(lambda: len(self.outcomes()) == expected)

    def complaints(self) -> Sequence[str]:
        ended = [event.data.id for event in self.bus.published if isinstance(event.data, EvictionCompleted)]
        return self.ledger.complaints(self.wanted, ended)


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    async with api_proxy(control_plane) as proxy:
        yield proxy


@pytest.fixture
async def site(control_plane: ControlPlane, proxy: ApiProxy, tmp_path: Path) -> AsyncIterator[FaultySite]:
    async with real_driver(control_plane.kubeconfig, tmp_path) as real:
        yield FaultySite(real, proxy.kubeconfig(real.kubeconfig, tmp_path))


async def test_lost_answers_repeat_neither_an_eviction_nor_a_write(site: FaultySite, proxy: ApiProxy) -> None:
    victim = await pod(site.cluster, "answered")
    node = await site.node("answered")
    async with site.running() as service:
        proxy.loses = "/eviction"
        await site.want(victim)
        await until(lambda: service.inventory.pods[victim.key].deleting)
        proxy.loses = "/status"
        await site.offer(node, 4_000, GIB)
        await until(lambda: dict(service.inventory.nodes[node].lent) == {CPU: 4_000, MEMORY: GIB})
        await asyncio.sleep(1.5)  # longer than the pause after a refusal
        proxy.loses = "-"
        await site.offer(node, 3_000, GIB)
        await site.until_lent(node, {CPU: 3_000, MEMORY: GIB})
        await site.end(victim)
    assert proxy.count("POST", "/eviction") == 1
    assert proxy.count("PATCH", f"{node}/status") == 2
    assert site.outcomes() == [EvictionOutcome.TERMINATED]
    assert site.complaints() == []


async def test_a_slow_api_server_gets_the_newest_offer_and_each_eviction_once(
    site: FaultySite, proxy: ApiProxy
) -> None:
    victim = await pod(site.cluster, "slow")
    node = await site.node("slow")
    async with site.running():
        proxy.latency_seconds = 1.0
        await site.want(victim)
        for cpu in (9_000, 8_000, 7_000, 6_000):
            await site.offer(node, cpu, GIB)
            await asyncio.sleep(0.2)
        await site.until_lent(node, {CPU: 6_000, MEMORY: GIB})
        while not await site.is_deleting(victim):
            await asyncio.sleep(0.05)
        await site.end(victim)
    assert proxy.count("PATCH", f"{node}/status") <= 2, "what is overtaken is not written"
    assert proxy.count("POST", "/eviction") == 1
    assert site.complaints() == []


async def test_watches_cut_after_every_event_lose_nothing_and_list_nothing_again(
    site: FaultySite, proxy: ApiProxy
) -> None:
    proxy.events_per_watch = 1
    victim, node = await pod(site.cluster, "cut"), await site.node("cut")
    classes = [site.cluster.name(f"cut{number}") for number in range(6)]
    async with site.running() as service:
        for number, name in enumerate(classes):
            await site.cluster.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": number})
            await site.offer(node, 1_000 * (number + 1), GIB)
        for name in classes[:3]:
            await site.cluster.delete(PRIORITY_CLASSES, name)
        await site.want(victim)
        await until(lambda: set(classes) & set(service.inventory.items(PRIORITY_CLASSES)) == set(classes[3:]))
        await until(lambda: service.inventory.pods[victim.key].deleting)
        await site.until_lent(node, {CPU: 6_000, MEMORY: GIB})
        await site.end(victim)
    assert proxy.cuts >= len(classes) + 3 + 1
    assert all(proxy.lists(kind.path) == 1 for kind in KINDS), "resumed, never listed again"
    assert site.complaints() == []


async def test_an_api_server_that_is_killed_delays_an_eviction_and_a_write(
    site: FaultySite, control_plane: ControlPlane
) -> None:
    victim, node = await pod(site.cluster, "outlives"), await site.node("outlives")
    async with site.running() as service:
        control_plane.kill("kube-apiserver")
        await site.want(victim)
        await site.offer(node, 9_000, GIB)
        await until(lambda: bool(refusals(service)) and node in service.status.refusals)
        await site.offer(node, 8_000, GIB)
        control_plane.restart("kube-apiserver")
        await asyncio.to_thread(control_plane.wait_ready)
        await until(lambda: service.inventory.pods[victim.key].deleting)
        await site.until_lent(node, {CPU: 8_000, MEMORY: GIB})
        await site.end(victim)
    assert site.outcomes() == [EvictionOutcome.TERMINATED]
    assert site.complaints() == []


async def test_an_older_etcd_repeats_no_eviction_and_gets_what_it_lost(
    site: FaultySite, control_plane: ControlPlane
) -> None:
    """Resource versions go back, and an evicted pod is there again."""
    evicted, later = await pod(site.cluster, "evicted"), await pod(site.cluster, "later")
    node = await site.node("older")
    async with site.running() as service:
        await site.offer(node, 9_000, GIB)
        await site.until_lent(node, {CPU: 9_000, MEMORY: GIB})
        with control_plane.etcd_restored_after():
            await site.offer(node, 7_000, GIB)
            await site.until_lent(node, {CPU: 7_000, MEMORY: GIB})
            await site.want(evicted)
            await until(lambda: service.inventory.pods[evicted.key].deleting)
            await site.end(evicted)
            for number in range(50):  # newer versions than the restored server will have for a while
                await site.cluster.write_lent(node, "other", {"kubernetes.io/mid-cpu": number})
            await site.cluster.write_lent(node, "other", {"kubernetes.io/mid-cpu": 0})
        await asyncio.to_thread(control_plane.wait_ready)
        await until(lambda: evicted.key in service.inventory.pods)
        await site.until_lent(node, {CPU: 7_000, MEMORY: GIB})
        await site.want(later)
        await until(lambda: service.inventory.pods[later.key].deleting)
        await site.end(later)
        assert not service.inventory.pods[evicted.key].deleting
    assert site.ledger.evicted == [evicted.uid, later.uid]
    assert site.complaints() == []
