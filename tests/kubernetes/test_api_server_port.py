"""What slackwater.apiserver.port promises, of the server in memory and of a real one with the service's own rights."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.kubernetes.drivers import ClusterDriver, MemoryDriver

from slackwater.apiserver.objects import document_kind
from slackwater.apiserver.port import BudgetRefused, FieldsOwned, KindNotServed, VersionExpired, WatchChange, WatchEvent
from slackwater.apiserver.records import (
    BUDGETS,
    CORDON_TAINT,
    JOBS,
    KINDS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    ClusterNode,
    PodRecord,
    Taint,
    parse_node,
    parse_pod,
)
from slackwater.model.errors import Conflict, NotFound
from slackwater.resources.kinds.autonomy import AUTONOMY

CPU, MEMORY = "slackwater.io/batch-cpu", "slackwater.io/batch-memory"
ALIAS = "kubernetes.io/batch-cpu"
PATIENCE_SECONDS = 60.0


def priority(name: str, value: int = 5_500) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value}


async def listed(cluster: ClusterDriver, kind: Any = PRIORITY_CLASSES) -> tuple[dict[str, Any], str]:
    page = await cluster.api.list_page(kind, 500)
    return {item.key: item for item in page.items}, page.version


async def events_of(cluster: ClusterDriver, version: str, keys: set[str], count: int) -> list[WatchEvent[Any]]:
    """The next events about these priority classes."""
    found = list[WatchEvent[Any]]()
    async with asyncio.timeout(PATIENCE_SECONDS), aclosing(cluster.api.watch(PRIORITY_CLASSES, version)) as events:  # type: ignore[type-var]
        async for event in events:
            if event.item is not None and event.item.key in keys:
                found.append(event)
                if len(found) == count:
                    break
    return found


async def node(cluster: ClusterDriver, stem: str = "node") -> ClusterNode:
    name = cluster.name(stem)
    allocatable = {"cpu": "8", "memory": "16Gi"}
    await cluster.put(
        NODES, {"metadata": {"name": name}, "status": {"capacity": allocatable, "allocatable": allocatable}}
    )
    return parse_node(await cluster.document(NODES, name))


async def test_pages_hold_every_object_once_and_are_of_one_version(cluster: ClusterDriver) -> None:
    names = [cluster.name(f"page{number}") for number in range(5)]
    for name in names:
        await cluster.put(PRIORITY_CLASSES, priority(name))
    keys, versions, page = list[str](), set[str](), ""
    while True:
        answer = await cluster.api.list_page(PRIORITY_CLASSES, 2, page)
        assert len(answer.items) <= 2
        keys += [item.key for item in answer.items]
        versions.add(answer.version)
        page = answer.next_page
        if not page:
            break
        await cluster.put(PRIORITY_CLASSES, priority(cluster.name("late"), 1))
    assert len(versions) == 1
    assert sorted(key for key in keys if key in names) == sorted(names)
    assert cluster.name("late") not in keys


async def test_every_kind_can_be_listed_and_watched(cluster: ClusterDriver) -> None:
    for kind in KINDS:
        page = await cluster.api.list_page(kind, 100)
        async with aclosing(cluster.api.watch(kind, page.version)) as events:  # type: ignore[type-var]
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(events)


async def test_a_kind_that_is_not_served_is_named(cluster: ClusterDriver) -> None:
    gone = replace(document_kind(AUTONOMY), version="v9")  # the rights are for all versions
    if isinstance(cluster, MemoryDriver):
        cluster.api.unserved.add(gone.plural)
    with pytest.raises(KindNotServed, match="does not serve"):
        await cluster.api.list_page(gone, 1)
    async with aclosing(cluster.api.watch(gone, "1")) as events:  # type: ignore[type-var]
        with pytest.raises(KindNotServed, match="does not serve"):
            await anext(events)
    assert not await cluster.api.serves(gone)


async def test_a_watch_shows_every_change_in_order_and_resumes_after_any_of_them(cluster: ClusterDriver) -> None:
    name = cluster.name("watched")
    _, version = await listed(cluster)
    await cluster.put(PRIORITY_CLASSES, priority(name))
    await cluster.put(PRIORITY_CLASSES, {**priority(name), "description": "changed"})
    await cluster.delete(PRIORITY_CLASSES, name)
    seen = await events_of(cluster, version, {name}, 3)
    assert [event.change for event in seen] == [WatchChange.UPSERTED, WatchChange.UPSERTED, WatchChange.DELETED]
    assert len({event.item.uid for event in seen if event.item}) == 1
    for number in range(2):
        rest = await events_of(cluster, seen[number].version, {name}, 2 - number)
        assert rest == seen[number + 1 :]


async def test_a_watch_that_waits_sees_what_comes(cluster: ClusterDriver) -> None:
    name = cluster.name("coming")
    _, version = await listed(cluster)
    waiting = asyncio.create_task(events_of(cluster, version, {name}, 1))
    await asyncio.sleep(0.05)
    await cluster.put(PRIORITY_CLASSES, priority(name))
    (event,) = await waiting
    assert event.item is not None
    assert (event.item.key, event.item.value) == (name, 5_500)


async def test_a_version_of_the_past_expires() -> None:
    """In memory; test_a_killed_api_server_loses_no_change sees it on a real one, which keeps the past for minutes."""
    cluster = MemoryDriver()
    await cluster.put(PRIORITY_CLASSES, priority("any"))
    cluster.api.compact()
    with pytest.raises(VersionExpired):
        await events_of(cluster, "1", set(), 1)


async def test_amounts_appear_in_canonical_form_and_leave_when_they_are_not_applied_again(
    cluster: ClusterDriver,
) -> None:
    before = await node(cluster)
    amounts = {CPU: 12_000, MEMORY: 3 << 30, "slackwater.io/mid-cpu": 1_501, "slackwater.io/mid-memory": 1_000}
    after = await cluster.api.apply_lent(before, amounts, force=False)
    assert (dict(after.lent), after.owned, after.allocatable) == (amounts, frozenset(amounts), before.allocatable)
    status = (await cluster.document(NODES, before.key))["status"]
    for part in ("capacity", "allocatable"):
        texts = {name: text for name, text in status[part].items() if name.startswith("slackwater.io/")}
        assert texts == {CPU: "12k", MEMORY: "3Gi", "slackwater.io/mid-cpu": "1501", "slackwater.io/mid-memory": "1k"}
    fewer = await cluster.api.apply_lent(after, {CPU: 9_000}, force=False)
    assert (dict(fewer.lent), fewer.owned) == ({CPU: 9_000}, frozenset({CPU}))
    none = await cluster.api.apply_lent(fewer, {}, force=False)
    assert (none.lent, none.owned) == ((), frozenset())
    assert (await cluster.document(NODES, before.key))["status"]["allocatable"] == {"cpu": "8", "memory": "16Gi"}


async def test_applying_the_same_again_changes_nothing(cluster: ClusterDriver) -> None:
    before = await node(cluster)
    once = await cluster.api.apply_lent(before, {CPU: 1_000}, force=False)
    twice = await cluster.api.apply_lent(once, {CPU: 1_000}, force=False)
    assert twice == once


async def test_amounts_of_another_manager_are_refused_by_name_and_taken_by_force(cluster: ClusterDriver) -> None:
    before = await cluster.api.apply_lent(await node(cluster), {CPU: 1}, force=False)
    await cluster.write_lent(before.key, "koord-manager", {ALIAS: 700})
    with pytest.raises(FieldsOwned) as refused:
        await cluster.api.apply_lent(before, {CPU: 2, ALIAS: 800}, force=False)
    assert refused.value.managers == {"koord-manager"}
    known = parse_node(await cluster.document(NODES, before.key))
    assert (dict(known.lent), known.foreign) == ({ALIAS: 700, CPU: 1}, ((ALIAS, "koord-manager"),))
    taken = await cluster.api.apply_lent(known, {ALIAS: 800}, force=True)
    assert (dict(taken.lent), taken.owned, taken.foreign) == ({ALIAS: 800}, frozenset({ALIAS}), ())


async def test_amounts_from_before_the_first_apply_have_a_manager_without_a_name(cluster: ClusterDriver) -> None:
    before = await node(cluster)
    await cluster.write_lent(before.key, "koord-manager", {ALIAS: 700})
    assert parse_node(await cluster.document(NODES, before.key)).foreign == ((ALIAS, ""),)
    with pytest.raises(FieldsOwned) as refused:
        await cluster.api.apply_lent(before, {ALIAS: 800}, force=False)
    assert refused.value.managers == {"before-first-apply"}


async def test_an_amount_that_two_managers_own_stays_when_one_withdraws(cluster: ClusterDriver) -> None:
    before = await cluster.api.apply_lent(await node(cluster), {CPU: 1}, force=False)
    await cluster.write_lent(before.key, "koord-manager", {ALIAS: 700})
    both = await cluster.api.apply_lent(before, {CPU: 1, ALIAS: 700}, force=False)
    assert both.owned == {CPU}
    assert both.foreign == ((ALIAS, "koord-manager"),)
    left = await cluster.api.apply_lent(both, {}, force=False)
    assert (dict(left.lent), left.owned) == ({ALIAS: 700}, frozenset())


async def test_a_node_that_is_gone_or_another_one_or_was_written_meanwhile_is_not_written(
    cluster: ClusterDriver,
) -> None:
    known = await node(cluster)
    with pytest.raises(NotFound):
        await cluster.api.apply_lent(replace(known, key=cluster.name("unknown")), {CPU: 1}, force=False)
    other = replace(known, uid="0d0c6c5c-7c5e-4cf0-9c5f-2f0f7f6a5e11")
    with pytest.raises(Conflict) as refused:
        await cluster.api.apply_lent(other, {CPU: 1}, force=False)
    assert not isinstance(refused.value, FieldsOwned)
    lent = await cluster.api.apply_lent(known, {CPU: 1}, force=False)
    await cluster.write_lent(known.key, "koord-manager", {ALIAS: 7})
    with pytest.raises(Conflict) as refused:
        await cluster.api.apply_lent(lent, {}, force=False)
    assert not isinstance(refused.value, FieldsOwned)
    assert dict(parse_node(await cluster.document(NODES, known.key)).lent) == {CPU: 1, ALIAS: 7}


@pytest.mark.parametrize("labels", [{}, {"zone": "a"}])
async def test_the_last_amount_leaves_alone_whatever_the_server_has_noted(
    cluster: ClusterDriver, labels: dict[str, str]
) -> None:
    """A node that was registered with its status has no managers of it, so an apply of less would take the maps."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    name = cluster.name("registered")
    await cluster.register({"metadata": {"name": name, "labels": labels}, "status": status})
    before = await cluster.document(NODES, name)
    lent = await cluster.api.apply_lent(parse_node(before), {CPU: 1, MEMORY: 1 << 30}, force=False)
    less = await cluster.api.apply_lent(lent, {CPU: 1}, force=False)
    await cluster.api.apply_lent(less, {}, force=False)
    after = await cluster.document(NODES, name)
    assert {part: after["status"][part] for part in status} == status
    assert "slackwater" not in {entry["manager"] for entry in after["metadata"].get("managedFields", ())}


async def test_pods_and_owners_are_read_as_the_server_stores_them(cluster: ClusterDriver) -> None:
    name, host = cluster.name("pod"), (await node(cluster)).key
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "job",
        "uid": "0d0c6c5c-7c5e-4cf0-9c5f-2f0f7f6a5e12",
        "controller": True,
    }
    requests = {"cpu": "250m", CPU: "1500", MEMORY: "1Gi"}
    container = {
        "name": "c",
        "image": "none",
        "resources": {"requests": requests, "limits": {CPU: "1500", MEMORY: "1Gi"}},
    }
    metadata = {"namespace": "default", "name": name, "labels": {"app": "a"}, "ownerReferences": [owner]}
    await cluster.put(
        PODS,
        {"metadata": metadata, "spec": {"nodeName": host, "containers": [container]}, "status": {"phase": "Running"}},
    )
    pod = (await listed(cluster, PODS))[0][f"default/{name}"]
    assert (pod.node, pod.phase, pod.occupies, pod.labels) == (host, "Running", True, (("app", "a"),))
    assert (pod.request.cpu_milli, dict(pod.borrowed)) == (250, {CPU: 1_500, MEMORY: 1 << 30})
    assert (pod.owner.group, pod.owner.kind, pod.owner.name) == ("batch", "Job", "job")
    assert JOBS.plural == "jobs"


async def pod(cluster: ClusterDriver, stem: str, **labels: str) -> PodRecord:
    """A running pod, bound to a node that exists."""
    name, host = cluster.name(stem), (await node(cluster)).key
    metadata = {"namespace": "default", "name": name, "labels": labels}
    spec = {"nodeName": host, "containers": [{"name": "c", "image": "none"}]}
    ready = [{"type": "Ready", "status": "True"}]
    await cluster.put(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": "Running", "conditions": ready}})
    return parse_pod(await cluster.document(PODS, f"default/{name}"))


async def budget(cluster: ClusterDriver, app: str, allowed: int) -> None:
    """A budget of the pods with this label, with the status that the disruption controller would write."""
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
        "observedGeneration": 1,
    }
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    await cluster.put(BUDGETS, {"metadata": {"namespace": "default", "name": app}, "spec": spec, "status": status})


async def test_an_eviction_deletes_with_grace_once_and_only_the_named_uid(cluster: ClusterDriver) -> None:
    known = await pod(cluster, "victim")
    with pytest.raises(Conflict) as refused:
        await cluster.api.evict_pod(known.key, "0d0c6c5c-7c5e-4cf0-9c5f-2f0f7f6a5e11", 7, dry_run=False)
    assert not isinstance(refused.value, FieldsOwned)
    await cluster.api.evict_pod(known.key, known.uid, 7, dry_run=True)
    assert not parse_pod(await cluster.document(PODS, known.key)).deleting
    await cluster.api.evict_pod(known.key, known.uid, 7, dry_run=False)
    document = await cluster.document(PODS, known.key)
    assert parse_pod(document).deleting
    assert document["metadata"]["deletionGracePeriodSeconds"] == 7
    await cluster.delete(PODS, known.key)  # as the kubelet does when the containers have ended
    with pytest.raises(NotFound):
        await cluster.api.evict_pod(known.key, known.uid, 7, dry_run=False)


async def test_a_budget_refuses_evictions_and_says_when_to_try_again(cluster: ClusterDriver) -> None:
    app = cluster.name("app")
    first, second = await pod(cluster, "first", app=app), await pod(cluster, "second", app=app)
    await budget(cluster, app, 1)
    await cluster.api.evict_pod(first.key, first.uid, 7, dry_run=True)
    await cluster.api.evict_pod(first.key, first.uid, 7, dry_run=False)
    for dry_run in (True, False):
        with pytest.raises(BudgetRefused) as refused:
            await cluster.api.evict_pod(second.key, second.uid, 7, dry_run=dry_run)
        assert refused.value.retry_after_seconds > 0
    assert not parse_pod(await cluster.document(PODS, second.key)).deleting


async def test_a_cordon_is_one_taint_beside_those_of_others(cluster: ClusterDriver) -> None:
    name = (await node(cluster)).key
    taints = [
        {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"},
        {"key": "example.com/leave", "effect": "NoExecute", "timeAdded": "2026-11-26T00:00:00Z"},
    ]
    status = (await cluster.document(NODES, name))["status"]
    spec = {"taints": taints, "unschedulable": True}
    await cluster.put(NODES, {"metadata": {"name": name}, "spec": spec, "status": status})
    others = (await cluster.document(NODES, name))["spec"]  # with the taint of spec.unschedulable, on a real server
    for value in ("until-1", "until-2"):
        read = parse_node(await cluster.document(NODES, name))
        after = await cluster.api.set_cordon(read, Taint(CORDON_TAINT, value, "NoSchedule"))
        assert after.cordon == Taint(CORDON_TAINT, value, "NoSchedule")
        spec = (await cluster.document(NODES, name))["spec"]
        assert spec["taints"][:-1] == others["taints"]
        assert spec["unschedulable"]
        with pytest.raises(Conflict):
            await cluster.api.set_cordon(read, None)
    await cluster.api.set_cordon(after, None)
    assert (await cluster.document(NODES, name))["spec"] == others
    with pytest.raises(NotFound):
        await cluster.api.set_cordon(replace(after, key=cluster.name("unknown")), None)
