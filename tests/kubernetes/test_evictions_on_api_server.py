"""Evictions of documents on a real API server, with exactly the rights of the manifests."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.kubernetes.drivers import RealDriver
from tests.kubernetes.rest import Rest
from tests.kubernetes.test_api_server_port import budget, pod
from tests.kubernetes.test_service_on_api_server import Site, until

from slackwater.apiserver.records import PODS, PodRecord, parse_pod
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import Eviction, IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.kubernetes.domain.eviction_plan import EvictionPhase
from slackwater.kubernetes.service import KubernetesService
from slackwater.model.nodes import API_SERVER, EVICTIONS_BY, CpuTopology, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock


class EvictingSite(Site):
    """Describes nodes as agents that leave evictions to the API server, and wants evictions as ensurance."""

    def __init__(self, cluster: RealDriver, clock: Clock | None = None, **settings: Any) -> None:
        super().__init__(cluster, clock, **settings)
        self._documents = 0

    async def want(self, *victims: PodRecord, seconds: float = 120.0, waits: bool = True, name: str = "d") -> None:
        """Declare the evictions of pods of one node, in this order, until the deadline in so many seconds."""
        self._documents += 1
        node = victims[0].node
        size, now = Resources(8_000, 16 << 30), self.clock.now()
        facts = NodeFacts(
            *(node, "default", size, Resources(0, 0), CpuTopology(8, 4, 1, 1), "6.1", "v2", "simulated", "1"),
            annotations={EVICTIONS_BY: API_SERVER},
        )
        described = NodeDescribed(facts=facts, boot_epoch="b", described_at=now)
        await self.bus.publish(event_of(described, source=node, time=now))
        evictions = tuple(
            Eviction(
                id=f"{name}-{victim.uid}",
                pod_uid=victim.uid,
                grace_seconds=30,
                deadline=now + timedelta(seconds=seconds),
                reason="pressure",
                decision_id="d",
                waits=waits,
            )
            for victim in victims
        )
        document = IntentDeclared(
            node=node,
            writer="ensurance",
            generation=self._documents,
            declared_at=now,
            lease_seconds=15,
            evictions=evictions,
        )
        await self.bus.publish(event_of(document, source="ensurance", time=now))

    def outcomes(self) -> list[EvictionOutcome]:
        return [event.data.outcome for event in self.bus.published if isinstance(event.data, EvictionCompleted)]

    async def is_deleting(self, victim: PodRecord) -> bool:
        return parse_pod(await self.cluster.document(PODS, victim.key)).deleting


def refusals(service: KubernetesService) -> list[str]:
    """Why evictions wait."""
    open_ = [e for tracked in service.evictions.by_node.values() for e in tracked]
    return [e.refusal for e in open_ if e.phase is not EvictionPhase.COMPLETED and e.refusal]


async def test_an_eviction_waits_for_its_budget_and_ends_with_its_pod(real: RealDriver) -> None:
    site = EvictingSite(real)
    app = real.name("guarded")
    victim = await pod(real, "victim", app=app)
    await budget(real, app, 0)
    async with site.running() as service:
        await site.want(victim)
        await until(lambda: bool(refusals(service)))
        assert "disruption budget" in refusals(service)[0]
        assert not await site.is_deleting(victim)
        await budget(real, app, 1)
        await until(lambda: service.inventory.pods[victim.key].deleting)  # after the 10 s that the server proposes
        assert site.outcomes() == []
        await real.delete(PODS, victim.key)
        await until(lambda: bool(site.outcomes()))
    assert site.outcomes() == [EvictionOutcome.TERMINATED]


async def test_what_a_budget_refuses_ends_at_once_if_it_does_not_wait(real: RealDriver) -> None:
    site = EvictingSite(real)
    app, twice = real.name("guarded"), real.name("twice")
    guarded, doubled, free = await pod(real, "v1", app=app), await pod(real, "v2", app=twice), await pod(real, "v3")
    await budget(real, app, 0)
    await budget(real, twice, 1)
    await budget(real, twice, 1, name=real.name("other"))
    async with site.running() as service:
        await site.want(guarded, doubled, free, waits=False)
        await until(lambda: len(site.outcomes()) == 2)
        await until(lambda: service.inventory.pods[free.key].deleting)
    assert site.outcomes() == [EvictionOutcome.REFUSED] * 2
    details = {
        event.data.pod_uid: event.data.detail
        for event in site.bus.published
        if isinstance(event.data, EvictionCompleted)
    }
    assert "disruption budget" in details[guarded.uid]
    assert "more than one PodDisruptionBudget" in details[doubled.uid]


def path_of(victim: PodRecord) -> str:
    namespace, _, name = victim.key.partition("/")
    return f"api/v1/namespaces/{namespace}/pods/{name}"


async def test_what_a_budget_does_not_protect_is_evicted_and_what_it_protects_for_now_is_not(real: RealDriver) -> None:
    """An unready pod of a budget that lets such go, one that has not begun, one of a budget whose status is of an older
    generation, one that a finalizer holds, and one of a budget that expects no pods."""
    site = EvictingSite(real)
    apps = {stem: real.name(stem) for stem in ("unready", "held", "pending", "stale", "empty")}
    victims = {stem: await pod(real, f"b3-{stem}", app=app) for stem, app in apps.items()}
    finalized = await pod(real, "b3-finalized")
    unready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}
    for stem, status in (("unready", unready), ("held", unready), ("pending", {"phase": "Pending", "conditions": []})):
        await real.done("PATCH", f"{path_of(victims[stem])}/status", {"status": status})
    for stem, app in apps.items():
        await budget(real, app, 1 if stem == "stale" else 0)
    budgets = "apis/policy/v1/namespaces/default/poddisruptionbudgets"
    for stem in ("unready", "held"):
        policy = "AlwaysAllow" if stem == "unready" else "IfHealthyBudget"
        changed = await real.done(
            "PATCH", f"{budgets}/{apps[stem]}", {"spec": {"unhealthyPodEvictionPolicy": policy, "minAvailable": 2}}
        )
        status = {"observedGeneration": changed["metadata"]["generation"], "currentHealthy": 1, "desiredHealthy": 2}
        await real.done("PATCH", f"{budgets}/{apps[stem]}/status", {"status": status})
    await real.done("PATCH", f"{budgets}/{apps['stale']}", {"spec": {"minAvailable": 2}})
    await real.done("PATCH", f"{budgets}/{apps['empty']}/status", {"status": {"expectedPods": 0, "currentHealthy": 0}})
    held = path_of(finalized)
    await real.done("PATCH", held, {"metadata": {"finalizers": ["example.com/hold"]}})
    async with site.running() as service:
        await site.want(*victims.values(), finalized, waits=False)

        def states() -> dict[str, bool]:
            return {stem: service.inventory.pods[victim.key].deleting for stem, victim in victims.items()}

        await until(lambda: states()["unready"] and len(site.outcomes()) == 3)
        await until(lambda: service.inventory.pods[finalized.key].deleting)
        assert states() == {"unready": True, "held": False, "pending": True, "stale": False, "empty": False}
        await real.done("PATCH", held, {"metadata": {"finalizers": None}})
        await real.delete(PODS, finalized.key)
        await until(lambda: EvictionOutcome.TERMINATED in site.outcomes())
    assert sorted(site.outcomes()) == [*[EvictionOutcome.REFUSED] * 3, EvictionOutcome.TERMINATED]


async def test_an_eviction_and_a_refusal_are_events_of_their_pods(real: RealDriver, admin_kubeconfig: Path) -> None:
    site, rest = EvictingSite(real), Rest(admin_kubeconfig)
    app = real.name("guarded")
    guarded, free = await pod(real, "v4", app=app), await pod(real, "v5")
    await budget(real, app, 0)

    def seen() -> dict[str, tuple[str, str, str]]:
        items = rest.client.get("/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
        about = {item["regarding"].get("uid"): item for item in items}
        found = {victim.uid: about[victim.uid] for victim in (guarded, free) if victim.uid in about}
        return {uid: (item["type"], item["reason"], item["note"]) for uid, item in found.items()}

    with rest.client:
        async with site.running() as service:
            await site.want(guarded, free, waits=False)
            await until(lambda: len(seen()) == 2)
            series = next(iter(service.events._book._known.values())).series
            await real.api.write_event(replace(series, count=3), "test", is_new=False)
        made = seen()
    assert made[free.uid][:2] == ("Normal", "EvictionAccepted")
    assert made[guarded.uid][:2] == ("Warning", "EvictionRefused")
    assert "disruption budget" in made[guarded.uid][2]


async def test_a_cordon_and_a_refused_write_are_events_of_their_node(real: RealDriver, admin_kubeconfig: Path) -> None:
    site, rest = Site(real, aliases=True), Rest(admin_kubeconfig)
    name = await site.node("reported")
    await real.write_lent(name, "koord-manager", {"kubernetes.io/batch-cpu": 700})

    def seen() -> dict[str, tuple[str, str]]:
        items = rest.client.get("/apis/events.k8s.io/v1/namespaces/default/events").json()["items"]
        found = [item for item in items if item["regarding"].get("name") == name]
        return {item["reason"]: (item["type"], item["note"]) for item in found}

    with rest.client:
        async with site.running():
            now = site.clock.now()
            cordon = NodeSchedulingChanged(
                node=name,
                closed=True,
                reason="scheduling_closed",
                decision_id="d",
                rules=("p.r",),
                since=now,
                told_at=now,
                valid_until=now + timedelta(seconds=120),
            )
            await site.bus.publish(event_of(cordon, source="ensurance", time=now))
            await site.offer(name, 12_000, 1 << 30)
            await until(lambda: {"Cordoned", "OfferRefused"} <= seen().keys())
        made = seen()
    assert made["Cordoned"][0] == "Normal"
    assert made["OfferRefused"][0] == "Warning"
    assert made["OfferRefused"][1].startswith("kubernetes.io/batch-cpu belongs to ")


async def test_a_dry_run_changes_nothing(real: RealDriver) -> None:
    site = EvictingSite(real, evictions="dry-run")
    victim = await pod(real, "kept")
    async with site.running():
        await site.want(victim)
        await until(lambda: bool(site.outcomes()))
    assert site.outcomes() == [EvictionOutcome.REFUSED]
    assert not await site.is_deleting(victim)
