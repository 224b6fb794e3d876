"""The service kubernetes on a real API server, with exactly the rights of its manifests."""

from __future__ import annotations

import asyncio
import copy
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.definitions import in_force
from tests.kubernetes.drivers import ADAPTER, RealDriver, granted, real_driver, rules
from tests.kubernetes.rest import Rest
from tests.support.bus import MemoryBus
from tests.support.statements import answer_common
from tests.support.store import MemoryDatabase
from typer.testing import CliRunner

from slackwater.apiserver.cluster_events import ClusterEvent, EventSeries, node_subject
from slackwater.apiserver.objects import SECRETS, WEBHOOKS, SecretRecord
from slackwater.apiserver.port import VersionExpired
from slackwater.apiserver.records import KINDS, NODES, PRIORITY_CLASSES, parse_node
from slackwater.cli.main import app
from slackwater.events.envelope import event_of
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.kubernetes.service import KubernetesService, build
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS, LIMITING_KINDS, POLICY_KINDS
from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, NotFound
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock, SystemClock
from slackwater.profiles.policy import mutation_objects
from slackwater.profiles.profile import ClusterColocationProfile
from slackwater.profiles.webhook import NAME as WEBHOOK
from slackwater.profiles.webhook import SERVICE, WebhookAddress, webhook_configuration
from slackwater.runtime.platform import Platform

CPU, MEMORY = "slackwater.io/batch-cpu", "slackwater.io/batch-memory"
GIB = 1 << 30
PATIENCE_SECONDS = 40.0
DOCUMENTS = tuple(watched for _, watched in DOCUMENT_KINDS.values())
UNUSED = {"selector": {"matchLabels": {"app": "unused"}}, "labels": {"a": "b"}}
POLICY = mutation_objects([ClusterColocationProfile.parse({"metadata": {"name": "unused"}, "spec": UNUSED})])


class Site:
    """The service on the real API server, with bus and database in memory."""

    def __init__(self, cluster: RealDriver, clock: Clock | None = None, **settings: Any) -> None:
        """`clock` is the service's."""
        self.cluster, self.clock = cluster, SystemClock()
        self.bus = MemoryBus(clock=self.clock)
        database = MemoryDatabase(clock=self.clock)
        answer_common(database.answers, database.announce)
        self._platform = Platform(self.bus, clock or self.clock, lambda _: database, Path("/nowhere"))
        self._settings = KubernetesSettings(kubeconfig=str(cluster.kubeconfig), **settings)
        self._generation = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubernetesService]:
        async with self.started(build(self._settings, self._platform)) as running:
            yield running

    @asynccontextmanager
    async def started(self, service: KubernetesService) -> AsyncIterator[KubernetesService]:
        started = asyncio.Event()
        running = asyncio.create_task(service.run(started.set))
        try:
            await until(lambda: running.done() or (started.is_set() and service.inventory.nodes_synced))
            assert not running.done(), running.result()
            yield service
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def node(self, stem: str) -> str:
        name = self.cluster.name(stem)
        amounts = {"cpu": "8", "memory": "16Gi"}
        await self.cluster.put(
            NODES, {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}
        )
        return name

    async def offer(self, node: str, cpu: int, memory: int) -> None:
        self._generation += 1
        now = self.clock.now()
        offered = ResourcesOffered(
            node=node,
            offered_at=now,
            generation=self._generation,
            batch=Resources(cpu, memory),
            degraded=None if cpu else "no usage",
            decision_ids={"batch-cpu": "d1", "batch-memory": "d2"},
        )
        await self.bus.publish(event_of(offered, source="colocation", time=now))

    async def cordon(self, node: str) -> None:
        now = self.clock.now()
        change = NodeSchedulingChanged(
            node=node,
            closed=True,
            reason="scheduling_closed",
            decision_id="d",
            rules=("p.r",),
            since=now,
            told_at=now,
            valid_until=now + timedelta(minutes=2),
        )
        await self.bus.publish(event_of(change, source="ensurance", time=now))

    async def lent(self, node: str) -> Mapping[str, int]:
        return dict(parse_node(await self.cluster.document(NODES, node)).lent)

    async def until_lent(self, node: str, amounts: Mapping[str, int]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (seen := await self.lent(node)) != amounts:
            assert time.monotonic() < deadline, seen
            await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


async def test_offers_follow_into_the_status_and_uninstall_leaves_the_node_as_it_was(real: RealDriver) -> None:
    site = Site(real, aliases=True)
    names = [await site.node("lends"), await site.node("foreign")]
    status = (await real.document(NODES, names[1]))["status"]
    foreign = {"taints": [{"key": "example.com/gpu", "effect": "NoSchedule"}], "unschedulable": True}
    await real.put(NODES, {"metadata": {"name": names[1]}, "spec": foreign, "status": status})
    await real.write_lent(names[1], "koord-manager", {"kubernetes.io/mid-cpu": 700})
    before = {name: await content(real, name) for name in names}
    async with site.running() as service:
        for name in names:
            await site.offer(name, 12_000, 8 * GIB)
        cpu, memory = {CPU, "kubernetes.io/batch-cpu"}, {MEMORY, "kubernetes.io/batch-memory"}
        await site.until_lent(names[0], dict.fromkeys(cpu, 12_000) | dict.fromkeys(memory, 8 * GIB))
        await site.offer(names[0], 9_000, 8 * GIB)
        await until(lambda: dict(service.inventory.nodes[names[0]].lent).get(CPU) == 9_000)
        assert service.status.refusals == {}
        for name in names:
            await site.cordon(name)
            await until(partial(is_cordoned, service, name))
        assert service.cordons.refusals == {}
    dry = await asyncio.to_thread(withdraw, real, "--dry-run")
    assert names[0] in dry
    assert (await site.lent(names[0]))[CPU] == 9_000
    assert "withdrawn from 2 nodes" in await asyncio.to_thread(withdraw, real)
    assert {name: await content(real, name) for name in names} == before
    assert "nothing to withdraw" in await asyncio.to_thread(withdraw, real)


def is_cordoned(service: KubernetesService, node: str) -> bool:
    return service.inventory.nodes[node].cordon is not None


async def content(cluster: RealDriver, name: str) -> Any:
    """The whole node without the API server's notes on it. Fields of nodes are tracked from the first apply on."""
    document = await cluster.document(NODES, name)
    del document["metadata"]["resourceVersion"]
    notes = document["metadata"].pop("managedFields", [])
    assert ("slackwater", "Apply") not in {(note["manager"], note["operation"]) for note in notes}
    return document


def withdraw(cluster: RealDriver, *options: str) -> str:
    command = ["kubernetes", "uninstall", "--kubeconfig", str(cluster.kubeconfig), "--wait-seconds", "0.2", *options]
    outcome = CliRunner().invoke(app, command)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


async def test_another_controller_is_named_and_keeps_its_amounts(real: RealDriver) -> None:
    site = Site(real, aliases=True)
    name = await site.node("contested")
    await real.api.apply_lent(parse_node(await real.document(NODES, name)), {CPU: 1}, force=False)
    await real.write_lent(name, "koord-manager", {"kubernetes.io/batch-cpu": 700})
    async with site.running() as service:
        await site.offer(name, 12_000, GIB)
        lent = {"kubernetes.io/batch-cpu": 700, CPU: 12_000, MEMORY: GIB, "kubernetes.io/batch-memory": GIB}
        await site.until_lent(name, lent)
        assert "koord-manager" in service.status.refusals[name]


async def test_amounts_that_the_kubelet_sets_to_zero_come_back(real: RealDriver) -> None:
    site = Site(real)
    name = await site.node("registered-again")
    async with site.running():
        await site.offer(name, 12_000, GIB)
        await site.until_lent(name, {CPU: 12_000, MEMORY: GIB})
        await real.write_lent(name, "kubelet", {CPU: 0, MEMORY: 0})
        await site.until_lent(name, {CPU: 12_000, MEMORY: GIB})


async def test_a_killed_api_server_loses_no_change(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with real_driver(control_plane.kubeconfig, tmp_path) as real:
        site = Site(real)
        node, kept, gone = await site.node("survives"), real.name("kept"), real.name("gone")
        await real.put(PRIORITY_CLASSES, {"metadata": {"name": gone}, "value": 1})
        async with site.running() as service:

            def classes() -> Mapping[str, object]:
                return service.inventory.items(PRIORITY_CLASSES)

            await until(lambda: gone in classes())
            control_plane.kill("kube-apiserver")
            await site.offer(node, 5_000, GIB)
            await until(lambda: node in service.status.refusals)
            control_plane.restart("kube-apiserver")
            await asyncio.to_thread(control_plane.wait_ready)
            await real.delete(PRIORITY_CLASSES, gone)
            await real.put(PRIORITY_CLASSES, {"metadata": {"name": kept}, "value": 2})
            await site.until_lent(node, {CPU: 5_000, MEMORY: GIB})
            await until(lambda: kept in classes() and gone not in classes())
        async with aclosing(real.api.watch(PRIORITY_CLASSES, "1")) as events:  # type: ignore[type-var]
            await anext(events)  # the answer
            with pytest.raises(VersionExpired):  # the restarted server has not read what was before
                await anext(events)


async def test_each_right_is_needed(real: RealDriver, admin_kubeconfig: Path) -> None:
    """Without any one of them the call that uses it is refused, and nothing else is granted to replace it."""
    name = await Site(real).node("guarded")
    uid = parse_node(await real.document(NODES, name)).uid
    rest = Rest(admin_kubeconfig)
    with closing(rest.client), in_force(rest):
        for right in granted(rules()):
            await real.grant(without(right))
            await until_refused(real, right, name, uid)
        for right in granted(rules("Role")):
            await real.grant(without(right, "Role"), "Role")
            await until_refused(real, right, name, uid)
        await asyncio.to_thread(rest.delete, f"/{WEBHOOKS.path}/{WEBHOOK}")
        for kind in POLICY_KINDS:  # made before the server saw the changed role
            for item in rest.client.get(f"/{kind.path}").json()["items"]:
                if item["metadata"]["name"].startswith("tried-"):
                    rest.delete(f"/{kind.path}/{item['metadata']['name']}")
    await real.grant(rules())
    await real.grant(rules("Role"), "Role")


def without(right: tuple[str, str, str], role: str = "ClusterRole") -> list[dict[str, Any]]:
    """All other rights, one rule for each."""
    group, resource, verb = right
    return [
        {**rule, "resources": [other], "verbs": [kept]}
        for rule in copy.deepcopy(rules(role))
        for other in rule["resources"]
        for kept in rule["verbs"]
        if (rule["apiGroups"][0], other, kept) != (group, resource, verb)
    ]


async def until_refused(real: RealDriver, right: tuple[str, str, str], node: str, uid: str) -> None:
    """The server sees a changed role a moment later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "forbidden" not in await refusal(real, right, node, uid):
        assert time.monotonic() < deadline, right
        await asyncio.sleep(0.02)


async def refusal(real: RealDriver, right: tuple[str, str, str], node: str, uid: str) -> str:
    """Use a right; returns why it was refused, or nothing."""
    _, resource, verb = right
    try:
        with suppress(NotFound, InvalidInput, Conflict):  # only rights matter here
            await _use(real, resource, verb, node, uid)
    except Misconfigured as error:
        return error.message
    return ""


async def _use(real: RealDriver, resource: str, verb: str, node: str, uid: str) -> None:
    kinds = {kind.plural: kind for kind in (*KINDS, *DOCUMENTS, *POLICY_KINDS, *LIMITING_KINDS)}
    if resource in (WEBHOOKS.plural, SECRETS.plural):
        await _use_named(real, resource, verb)
        return
    if resource == "nodes/status":
        await real.api.apply_lent(parse_node(await real.document(NODES, node)), {CPU: 1}, force=False)
    elif resource == "pods/eviction":
        await real.api.evict_pod(f"default/{node}", uid, 1, dry_run=True)
    elif resource == "events":
        now = SystemClock().now()
        event = ClusterEvent(node_subject(node, uid), "Tried", "Try", "a right is tried")
        series = EventSeries(f"tried-{uuid.uuid4().hex[:8]}", event, now, now)
        await real.api.write_event(series, "test", is_new=verb == "create")
    elif resource == "nodes" and verb == "patch":
        await real.api.set_cordon(parse_node(await real.document(NODES, node)), None)
    elif resource.endswith("/status"):
        await real.api.apply_status(kinds[resource.removesuffix("/status")], "unknown", uid, {"conditions": []})
    elif verb == "delete":
        await real.api.delete_object(kinds[resource], "unknown", uid)
    elif verb in ("create", "patch"):  # an apply that creates needs both; rights to create are asked last
        (document,) = (one for one in POLICY if one["kind"] == kinds[resource].kind)
        await real.api.apply_object(kinds[resource], f"tried-{uuid.uuid4().hex[:8]}", {"spec": document["spec"]})
    elif verb == "list":
        await real.api.list_page(kinds[resource], 1)
    else:
        async with aclosing(real.api.watch(kinds[resource], "0")) as events:  # type: ignore[type-var]
            await anext(events)


async def _use_named(real: RealDriver, resource: str, verb: str) -> None:
    """The rights on what the webhook needs, which are for one object each."""
    secret = SecretRecord(f"slackwater/{SERVICE}", "", "", {})
    if verb == "get" and resource == SECRETS.plural:
        await real.api.read_object(SECRETS, secret.key)
    elif verb == "get":
        await real.api.read_object(WEBHOOKS, WEBHOOK)
    elif resource == SECRETS.plural:
        await real.api.write_secret(secret, {})
    elif verb == "delete":
        await real.api.delete_object(WEBHOOKS, WEBHOOK, "another")
    else:
        if verb == "create":
            await real.remove(WEBHOOKS, WEBHOOK)
        address = WebhookAddress("slackwater")
        await real.api.apply_object(WEBHOOKS, WEBHOOK, {**webhook_configuration(address, ""), "webhooks": []})


async def test_the_api_server_takes_the_manifests_without_a_warning(real: RealDriver) -> None:
    files = [file for folder in (ADAPTER, ADAPTER.parent / "documents") for file in sorted(folder.glob("*.yaml"))]
    for document in (part for file in files for part in yaml.safe_load_all(file.read_text())):
        if document["kind"] != "Kustomization":
            assert await real.warnings_of(document) == [], document["kind"]
