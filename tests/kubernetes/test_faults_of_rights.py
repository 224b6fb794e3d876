"""Rights of the service kubernetes taken away while it runs: what stops, what goes on, what says so, and that it heals.

The role is written anew without a right, and open watches are cut, which the API server itself does only after minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import REGISTRY
from tests.kubernetes.api_proxy import ApiProxy, api_proxy
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.definitions import in_force, path_of
from tests.kubernetes.drivers import RealDriver, granted, real_driver, rules
from tests.kubernetes.rest import PATIENCE_SECONDS, Rest
from tests.kubernetes.test_api_server_port import pod
from tests.kubernetes.test_documents_on_api_server import DocumentSite
from tests.kubernetes.test_evictions_on_api_server import EvictingSite
from tests.kubernetes.test_service_on_api_server import CPU, GIB, until, withdraw
from tests.kubernetes.test_webhook_on_api_server import POLICY_PATHS, WebhookSite, namespace
from tests.kubernetes.write_ledger import RecordingServer, WriteLedger

from slackwater.apiserver.objects import SECRETS, WEBHOOKS
from slackwater.apiserver.records import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, PodRecord, parse_node
from slackwater.apiserver.rights import REVIEWS, access_review, effect_without
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.kubernetes import service as composition
from slackwater.kubernetes.adapters.http_documents import HttpDocuments
from slackwater.kubernetes.domain.document_plan import condition_of
from slackwater.kubernetes.service import KubernetesService
from slackwater.kubernetes.usecases.resources_read import LIMITING_KINDS, POLICY_KINDS
from slackwater.profiles.policy import NAME as POLICY
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE as PROFILE

Right = tuple[str, str, str]
"""API group, resource and verb."""
READS = {"list", "watch"}
ADMISSION = "admissionregistration.k8s.io"
WEBHOOK_ONLY = {(WEBHOOKS.group, WEBHOOKS.plural), (SECRETS.group, SECRETS.plural)}
OTHERS = {"namespaces", "replicasets", "jobs", "poddisruptionbudgets", "priorityclasses"}
SEEN = {"node seen", "pod seen", "class seen", "namespace seen"}
DOCUMENTS = {"document", "status", "profile"}
WORKS = {"offer", "cordon", "eviction", "eviction's end", *SEEN, *DOCUMENTS}
OUTAGES: dict[str, tuple[Callable[[Right], bool], set[str]]] = {
    "offers": (lambda right: right[1] == "nodes/status", {"offer"}),
    "cordons": (lambda right: right == ("", "nodes", "patch"), {"cordon"}),
    "evictions": (lambda right: right[1] == "pods/eviction", {"eviction"}),
    "events": (lambda right: right[0] == "events.k8s.io", set()),
    "nodes": (lambda right: right[1] == "nodes" and right[2] in READS, {"node seen"}),
    "pods": (lambda right: right[1] == "pods", {"pod seen", "eviction's end"}),
    "others": (lambda right: right[1] in OTHERS, {"class seen", "namespace seen"}),
    "documents": (lambda right: right[0] == "slackwater.io" and right[2] in READS, DOCUMENTS),
    "statuses": (lambda right: right[0] == "slackwater.io" and right[2] == "patch", {"status"}),
    "limits": (lambda right: right[1] in ("resourcequotas", "limitranges"), set()),
    "policies": (lambda right: right[0] == ADMISSION and right[2] not in READS, {"profile"}),
    "policies' watches": (lambda right: right[0] == ADMISSION and right[2] in READS, set()),
}
"""The rights that are taken away, and the works that stop."""


def is_webhook(right: Right) -> bool:
    return right[:2] in WEBHOOK_ONLY


def title(right: Right) -> str:
    """As slackwater.apiserver.port.RightMissing names it."""
    group, resource, verb = right
    name, _, part = resource.partition("/")
    return f"{verb} {name}{f'.{group}' if group else ''}{f'/{part}' if part else ''}"


def every_right() -> list[Right]:
    return [*granted(rules()), *granted(rules("Role"))]


def test_every_right_is_of_one_outage_and_its_effect_is_named() -> None:
    for right in every_right():
        taken = [name for name, (is_taken, _) in OUTAGES.items() if is_taken(right) and not is_webhook(right)]
        assert is_webhook(right) or len(taken) == 1, right
        assert effect_without(title(right)), right


class Works:
    """Each piece of the service's work once, on objects of its own: begun, and looked at."""

    def __init__(self, site: RightsSite, service: KubernetesService) -> None:
        self._site, self._service = site, service
        self._name = site.cluster.name("outage")

    async def prepare(self) -> None:
        """What is there before rights are taken away."""
        site = self._site
        self.lending, self.cordoned = await site.node("lending"), await site.node("cordoned")
        self.victim, self.ending = await pod(site.cluster, "victim"), await pod(site.cluster, "ending")
        pods, nodes = self._service.inventory.pods, self._service.inventory.nodes
        await until(lambda: {self.victim.key, self.ending.key} <= pods.keys())
        await until(lambda: {self.lending, self.cordoned} <= nodes.keys())
        await site.want(self.ending)
        await until(lambda: pods[self.ending.key].deleting)

    async def begin(self) -> None:
        site, cluster = self._site, self._site.cluster
        await site.offer(self.lending, 4_000, GIB)
        await site.cordon(self.cordoned)
        await site.want(self.victim)
        await cluster.delete(PODS, self.ending.key)
        await cluster.put(PRIORITY_CLASSES, {"metadata": {"name": self._name}, "value": 1})
        await cluster.put(NAMESPACES, {"metadata": {"name": self._name}})
        self.new_node, self.new_pod = await site.node("new"), await pod(cluster, "new")
        await site.apply(AUTONOMY, self._name, mode="observe", nodePool=self._name)
        await site.apply(PROFILE, self._name, selector={"matchLabels": {"app": self._name}}, labels={"a": "b"})

    async def done(self) -> set[str]:
        """The works whose effect is there."""
        site, inventory = self._site, self._service.inventory
        node = parse_node(await site.cluster.document(NODES, self.cordoned))
        victim = await site.is_deleting(self.victim)
        status = (await site.read(AUTONOMY, self._name)).get("status", {})
        policy = await asyncio.to_thread(site.rest.client.get, f"{POLICY_PATHS['MutatingAdmissionPolicy']}/{POLICY}")
        effects = {
            "offer": (await site.lent(self.lending)).get(CPU) == 4_000,
            "cordon": node.cordon is not None,
            "eviction": victim,
            "eviction's end": self.ending.uid in site.ended(),
            "node seen": self.new_node in inventory.nodes,
            "pod seen": self.new_pod.key in inventory.pods,
            "class seen": self._name in inventory.items(PRIORITY_CLASSES),
            "namespace seen": self._name in inventory.items(NAMESPACES),
            "document": self._name in site.stored(AUTONOMY),
            "status": condition_of(status).get("status") == "True",
            "profile": self._name in policy.text,
        }
        return {work for work, has_effect in effects.items() if has_effect}

    async def end(self) -> None:
        outcomes = len(self._site.ended_ids())
        await self._site.cluster.delete(PODS, self.victim.key)
        await until(lambda: len(self._site.ended_ids()) > outcomes)
        await self._site.delete(AUTONOMY, self._name)
        await self._site.delete(PROFILE, self._name)


class RightsSite(DocumentSite, EvictingSite):
    """The service with all that it follows, behind a proxy, with a ledger of its writes."""

    def __init__(self, cluster: RealDriver, rest: Rest, kubeconfig: Path) -> None:
        super().__init__(cluster, rest)
        self.ledger = WriteLedger()
        self.wanted: list[str] = []
        self._kubeconfig = kubeconfig

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubernetesService]:
        for scene in self.kinds.values():
            await scene.open()
        server = RecordingServer(str(self._kubeconfig), self.ledger, self.clock)
        documents = HttpDocuments("http://127.0.0.1", transport=httpx2.ASGITransport(app=self._app))
        service = KubernetesService(self._settings, self._platform, server, server.connect, server.close, documents)
        async with self.started(service) as running:
            yield running

    async def node(self, stem: str) -> str:
        name = await super().node(stem)
        self.ledger.note_present(name, parse_node(await self.cluster.document(NODES, name)).version)
        return name

    async def want(self, *victims: PodRecord, seconds: float = 120.0, waits: bool = True, name: str = "d") -> None:
        self.wanted += [f"{name}-{victim.uid}" for victim in victims]
        await super().want(*victims, seconds=seconds, waits=waits, name=name)

    def complaints(self) -> list[str]:
        ended = self.ended_ids()
        return self.ledger.complaints(self.wanted, ended)

    def ended_ids(self) -> list[str]:
        """Ids of evictions that have an outcome."""
        return [event.data.id for event in self.bus.published if isinstance(event.data, EvictionCompleted)]

    def ended(self) -> set[str]:
        """Uids of pods whose eviction has an outcome."""
        return {event.data.pod_uid for event in self.bus.published if isinstance(event.data, EvictionCompleted)}


@pytest.fixture(scope="module")
def rest(admin_kubeconfig: Path) -> Iterator[Rest]:
    rest = Rest(admin_kubeconfig)
    with rest.client, in_force(rest):
        yield rest


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[ApiProxy]:
    async with api_proxy(control_plane) as proxy:
        yield proxy


@pytest.fixture
async def site(
    control_plane: ControlPlane, proxy: ApiProxy, rest: Rest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RightsSite]:
    monkeypatch.setattr(composition, "COUNT_SECONDS", 0.3)
    async with real_driver(control_plane.kubeconfig, tmp_path) as real:
        yield RightsSite(real, rest, proxy.kubeconfig(real.kubeconfig, tmp_path))


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Until it holds. Each look costs several requests, so that it is seldom. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await holds():
            await asyncio.sleep(0.25)


def one_by_one(rights: list[Right]) -> list[dict[str, Any]]:
    return [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for group, resource, verb in rights]


async def detail(service: KubernetesService, name: str = "kubernetes-rights") -> str:
    checks = await service.checks()
    assert all(check.ok for check in checks), "none of these is a reason to be unready"
    return next(check.detail for check in checks if check.name == name)


async def until_denied(cluster: RealDriver, rights: list[Right]) -> None:
    """The server sees a changed role a moment later."""
    for group, resource, verb in rights:
        name, _, part = resource.partition("/")
        path = f"apis/{group}/v1/{name}/any/{part}" if group else f"api/v1/{name}/any/{part}"

        await eventually(partial(is_denied, cluster, access_review(verb, path)))


async def is_denied(cluster: RealDriver, review: Mapping[str, Any]) -> bool:
    return not (await cluster.api.ask(REVIEWS, review))["status"]["allowed"]  # type: ignore[attr-defined]


def missing(rights: list[Right]) -> float:
    """The metric of these rights: how many of them are shown as missing."""
    values = (
        REGISTRY.get_sample_value("slackwater_kubernetes_missing_rights", {"right": title(right)}) for right in rights
    )
    return sum(value or 0.0 for value in values)


@pytest.mark.parametrize("outage", OUTAGES)
async def test_what_stops_is_named_the_rest_goes_on_and_all_of_it_heals(
    site: RightsSite, proxy: ApiProxy, outage: str
) -> None:
    is_taken, stops = OUTAGES[outage]
    lost = [right for right in granted(rules()) if is_taken(right) and not is_webhook(right)]
    reads = sorted({title(right) for right in lost if right[2] == "list"})

    async def reads_are_named() -> bool:
        shown = await detail(service)
        return all(read in shown for read in reads)

    async def rest_is_done() -> bool:
        return await works.done() >= WORKS - stops

    async def effect_is_named() -> bool:
        """Each list that is refused, and of what is written at least one."""
        shown = await detail(service)
        effects = {effect_without(title(right)) for right in lost}
        return missing(lost) > 0 and any(effect in shown for effect in effects) and await reads_are_named()

    async def all_is_done() -> bool:
        return await works.done() == WORKS and missing(lost) == 0 and not await detail(service)

    async with site.running() as service:
        works = Works(site, service)
        await works.prepare()
        if stops == set():
            kinds = (*POLICY_KINDS, *LIMITING_KINDS)
            await until(lambda: all(service.parts.resources.is_synced(kind.plural) for kind in kinds))
        try:
            await site.cluster.grant(one_by_one([right for right in granted(rules()) if right not in lost]))
            await until_denied(site.cluster, lost)
            proxy.cut_watches()
            await eventually(reads_are_named)
            await works.begin()
            await eventually(rest_is_done)
            await eventually(effect_is_named)
            assert await works.done() == WORKS - stops
            if "eviction" in stops:  # it ends as refused
                await until(lambda: works.victim.uid in site.ended())
        finally:
            await site.cluster.grant(rules())
        if "eviction" in stops:  # its writer asks again
            await site.want(works.victim, name="again")
        await eventually(all_is_done)
        await works.end()
    assert site.complaints() == []


@pytest.mark.parametrize("role", ["ClusterRole", "Role"])
async def test_the_webhook_answers_on_without_the_rights_on_its_objects(
    real: RealDriver, rest: Rest, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """On its configuration, or on its Secret: new profiles change pods as before, and what is not kept is named."""
    monkeypatch.setattr(composition, "COUNT_SECONDS", 0.3)
    lost = [right for right in granted(rules(role)) if is_webhook(right)]
    site = WebhookSite(real, rest, profiles="webhook", webhook_settle_seconds=2)
    app = real.name("app")

    async def is_named() -> bool:
        service.parts.notify()  # otherwise within half a minute
        return effect_without(title(lost[0])) in await detail(service) and missing(lost) > 0

    async def is_whole() -> bool:
        service.parts.notify()
        shown = [await detail(service, name) for name in ("kubernetes-rights", "kubernetes-documents")]
        return shown == ["", ""] and missing(lost) == 0

    await asyncio.to_thread(namespace, rest, "default", {})
    await site.apply(app, selector={"matchLabels": {app: "yes"}}, labels={"colour": "blue"})
    async with site.running() as service:
        await site.until_labelled(app, colour="blue")
        try:
            await real.grant(one_by_one([right for right in granted(rules(role)) if right not in lost]), role)
            await eventually(is_named)
            await site.apply(app, selector={"matchLabels": {app: "yes"}}, labels={"colour": "green"})
            await site.until_labelled(app, colour="green")
        finally:
            await real.grant(rules(role), role)
        await eventually(is_whole)
    await asyncio.to_thread(withdraw, real)
    await asyncio.to_thread(rest.delete, f"{path_of(PROFILE)}/{app}")
