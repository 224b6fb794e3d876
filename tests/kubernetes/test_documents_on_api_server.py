"""Custom resources become documents of the services, and profiles a policy, on a real API server with the rights of the
manifests."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.kubernetes.definitions import PATHS, definition_of, document_of, in_force, path_of
from tests.kubernetes.drivers import RealDriver
from tests.kubernetes.rest import PATIENCE_SECONDS, TRIED, Rest, wait_until
from tests.kubernetes.test_service_on_api_server import Site, withdraw
from tests.support.kinds import KindScene, no_checks

from slackwater.kubernetes.adapters.http_api_server import HttpApiServer
from slackwater.kubernetes.adapters.http_documents import HttpDocuments
from slackwater.kubernetes.domain.document_plan import condition_of
from slackwater.kubernetes.service import KubernetesService
from slackwater.resources import catalog
from slackwater.resources.kind import Kind
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE as PROFILE
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA as QUOTA
from slackwater.resources.kinds.predict_policy import PREDICT_POLICY
from slackwater.runtime.http import build_app
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.settings import HttpSettings

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
NAMESPACE = "default"


@pytest.fixture(scope="module")
def rest(admin_kubeconfig: Path) -> Iterator[Rest]:
    rest = Rest(admin_kubeconfig)
    with in_force(rest):
        yield rest
    rest.client.close()


class DocumentSite(Site):
    """The service, and the services' routes of every kind."""

    def __init__(self, cluster: RealDriver, rest: Rest) -> None:
        super().__init__(cluster)
        self.rest = rest
        self.kinds = {kind.plural: KindScene(kind) for kind in catalog.KINDS}
        routers = [resource_router(scene.change) for scene in self.kinds.values()]
        self._app = build_app(routers, no_checks, HttpSettings.local())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubernetesService]:
        for scene in self.kinds.values():
            await scene.open()
        server = HttpApiServer(str(self.cluster.kubeconfig))
        documents = HttpDocuments("http://127.0.0.1", transport=httpx2.ASGITransport(app=self._app))
        service = KubernetesService(self._settings, self._platform, server, server.connect, server.close, documents)
        async with self.started(service) as running:
            yield running

    async def apply(self, kind: Kind, name: str, **spec: Any) -> None:
        await asyncio.to_thread(self.rest.ensure, path_of(kind), document_of(kind, spec, name))

    async def delete(self, kind: Kind, name: str) -> None:
        await asyncio.to_thread(self.rest.delete, f"{path_of(kind)}/{name}")

    async def read(self, kind: Kind, name: str) -> Any:
        return (await asyncio.to_thread(self.rest.client.get, f"{path_of(kind)}/{name}")).json()

    async def until_followed(self, kind: Kind, name: str, status: str, generation: int) -> Mapping[str, Any]:
        async def reached() -> Any:
            found = condition_of((await self.read(kind, name)).get("status", {}))
            return found if (found.get("status"), found.get("observedGeneration")) == (status, generation) else None

        found: Mapping[str, Any] = await eventually(reached)
        return found

    def stored(self, kind: Kind) -> Mapping[str, int]:
        rows = self.kinds[kind.plural].store.rows.values()
        return {row.name: row.generation for row in rows if row.document is not None}


async def test_a_definition_that_is_deleted_ends_nothing_and_is_followed_again(real: RealDriver, rest: Rest) -> None:
    site = DocumentSite(real, rest)
    definition = definition_of(AUTONOMY)
    path = f"{PATHS['CustomResourceDefinition']}/{definition['metadata']['name']}"
    async with site.running() as service:
        await site.apply(AUTONOMY, "gold", mode="evict", nodePool="gold")
        await site.until_followed(AUTONOMY, "gold", "True", 1)
        await asyncio.to_thread(rest.delete, path)

        async def detail() -> str:
            return next(check.detail for check in await service.checks() if check.name == "kubernetes-documents")

        async def is_named() -> bool:
            return "does not serve autonomies" in await detail()

        await eventually(is_named)
        await eventually(_async(lambda: not site.stored(AUTONOMY)))
        await site.apply(PREDICT_POLICY, "gold", **PREDICT_POLICY.example)
        await site.until_followed(PREDICT_POLICY, "gold", "True", 1)
        await asyncio.to_thread(rest.ensure, PATHS["CustomResourceDefinition"], definition)
        await asyncio.to_thread(
            wait_until, lambda: rest.client.get(path_of(AUTONOMY)).status_code == 200, "autonomies are served"
        )
        await site.apply(AUTONOMY, "gold", mode="throttle", nodePool="gold")
        await site.until_followed(AUTONOMY, "gold", "True", 1)

        async def is_well() -> bool:
            return not await detail()

        await eventually(is_well)
        await site.delete(AUTONOMY, "gold")
        await site.delete(PREDICT_POLICY, "gold")
        await eventually(_async(lambda: not site.stored(AUTONOMY)))


@pytest.mark.parametrize("held", ["document", "definition", "both"])
async def test_a_definition_that_finalizers_hold_ends_nothing(real: RealDriver, rest: Rest, held: str) -> None:
    """A document is in force as long as it is there, which a finalizer delays; other kinds go on meanwhile."""
    site, definition = DocumentSite(real, rest), definition_of(AUTONOMY)
    of_kind = f"{PATHS['CustomResourceDefinition']}/{definition['metadata']['name']}"
    paths = [f"{path_of(AUTONOMY)}/held"] * (held != "definition") + [of_kind] * (held != "document")

    async def hold(path: str, change: Mapping[str, Any]) -> None:
        headers = {"content-type": "application/json-patch+json"}
        await asyncio.to_thread(rest.client.patch, path, json=[change], headers=headers)

    async def is_gone() -> bool:
        return (await asyncio.to_thread(rest.client.get, of_kind)).status_code == 404

    async with site.running():
        await site.apply(AUTONOMY, "held", mode="evict", nodePool="held")
        await site.until_followed(AUTONOMY, "held", "True", 1)
        for path in paths:
            value = ["tests.example/hold"]
            if path == of_kind:
                value.append("customresourcecleanup.apiextensions.k8s.io")
            await hold(path, {"op": "add", "path": "/metadata/finalizers", "value": value})
        await asyncio.to_thread(rest.delete, of_kind)
        await site.apply(PREDICT_POLICY, "gold", **PREDICT_POLICY.example)
        await site.until_followed(PREDICT_POLICY, "gold", "True", 1)
        if held != "definition":
            assert "held" in site.stored(AUTONOMY)
        for path in paths:
            await eventually(_released(rest, path))
        await eventually(is_gone)
        await eventually(_async(lambda: not site.stored(AUTONOMY)))
        await asyncio.to_thread(rest.ensure, PATHS["CustomResourceDefinition"], definition)
        await asyncio.to_thread(
            wait_until, lambda: rest.client.get(path_of(AUTONOMY)).status_code == 200, "autonomies are served"
        )
        await site.apply(AUTONOMY, "held", mode="throttle", nodePool="held")
        await site.until_followed(AUTONOMY, "held", "True", 1)
        for kind, name in ((AUTONOMY, "held"), (PREDICT_POLICY, "gold")):
            await site.delete(kind, name)
        await eventually(_async(lambda: not site.stored(AUTONOMY)))


def _released(rest: Rest, path: str) -> Callable[[], Any]:
    """Nothing but Kubernetes' own finalizers is left of an object, or it is gone."""

    async def reached() -> bool:
        answer = await asyncio.to_thread(rest.client.get, path)
        if answer.status_code == 404:
            return True
        own = [one for one in answer.json()["metadata"].get("finalizers", ()) if one != "tests.example/hold"]
        headers = {"content-type": "application/merge-patch+json"}
        await asyncio.to_thread(rest.client.patch, path, json={"metadata": {"finalizers": own}}, headers=headers)
        return False

    return reached


@pytest.mark.parametrize("change", ["newer-stored", "unserved"])
async def test_a_definition_that_comes_back_otherwise_is_followed_as_far_as_it_is_served(
    real: RealDriver, rest: Rest, change: str
) -> None:
    """With a newer version beside ours that is the stored one, which is served alone at first or not."""
    site, definition = DocumentSite(real, rest), definition_of(AUTONOMY)
    definitions, items = PATHS["CustomResourceDefinition"], path_of(AUTONOMY)
    path = f"{definitions}/{definition['metadata']['name']}"
    async with site.running() as service:

        async def is_named() -> bool:
            return "does not serve autonomies" in await detail_of(service)

        async def is_well() -> bool:
            return not await detail_of(service)

        await site.apply(AUTONOMY, "gold", mode="evict", nodePool="gold")
        await site.until_followed(AUTONOMY, "gold", "True", 1)
        await asyncio.to_thread(rest.delete, path)
        await eventually(is_named)
        await eventually(_async(lambda: not site.stored(AUTONOMY)))
        await asyncio.to_thread(gone, rest, path)
        await asyncio.to_thread(rest.ensure, definitions, otherwise(definition, change))
        if change == "unserved":
            await asyncio.sleep(2.0)
            assert await is_named()
            await asyncio.to_thread(rest.ensure, definitions, otherwise(definition, "newer-stored"))
        await asyncio.to_thread(wait_until, lambda: rest.client.get(items).status_code == 200, "autonomies are served")
        await site.apply(AUTONOMY, "gold", mode="throttle", nodePool="gold")
        await site.until_followed(AUTONOMY, "gold", "True", 1)
        await eventually(is_well)
        await site.delete(AUTONOMY, "gold")
        await eventually(_async(lambda: not site.stored(AUTONOMY)))
        await asyncio.to_thread(rest.delete, path)
        await asyncio.to_thread(gone, rest, path)
    await asyncio.to_thread(rest.ensure, definitions, definition)
    await asyncio.to_thread(wait_until, lambda: rest.client.get(items).status_code == 200, "autonomies are served")


async def detail_of(service: KubernetesService) -> str:
    return next(check.detail for check in await service.checks() if check.name == "kubernetes-documents")


def gone(rest: Rest, path: str) -> None:
    wait_until(lambda: rest.client.get(path).status_code == 404, f"{path} is gone")


def otherwise(definition: Mapping[str, Any], change: str) -> dict[str, Any]:
    """A definition with a newer version, which is the stored one."""
    made = copy.deepcopy(dict(definition))
    (ours,) = made["spec"]["versions"]
    changed = {**ours, "storage": False, "served": change == "newer-stored"}
    made["spec"]["versions"] = [changed, copy.deepcopy({**ours, "name": "v1beta1"})]
    return made


def merge(rest: Rest, path: str, change: Mapping[str, Any]) -> None:
    headers = {"content-type": "application/merge-patch+json"}
    answer = rest.client.patch(path, json=dict(change), headers=headers)
    assert answer.is_success, answer.text


TREE = {"a-root": "", "b-branch": "a-root", "c-leaf": "b-branch", "d-leaf": "b-branch"}
ORDER = ["b-branch", "d-leaf", "a-root", "c-leaf"]


async def test_a_tree_of_quotas_goes_from_the_middle(real: RealDriver, rest: Rest) -> None:
    """A finalizer holds one leaf for a while; what was refused before its children went is gone in the end."""
    site = DocumentSite(real, rest)
    async with site.running() as service:
        for name in ("a-root", "c-leaf", "b-branch", "d-leaf"):  # a leaf comes before its parent
            spec: dict[str, Any] = {"isParent": "leaf" not in name, "max": {"cpu": "8"}}
            await site.apply(QUOTA, name, **spec, **({"parent": TREE[name]} if TREE[name] else {}))
        await eventually(_async(lambda: site.stored(QUOTA).keys() >= TREE.keys()))
        leaf = f"{path_of(QUOTA)}/c-leaf"
        await asyncio.to_thread(merge, rest, leaf, {"metadata": {"finalizers": ["example.com/hold"]}})
        for name in ORDER:
            await site.delete(QUOTA, name)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(merge, rest, leaf, {"metadata": {"finalizers": None}})
        await asyncio.to_thread(wait_until, lambda: rest.client.get(leaf).status_code == 404, "the leaf is gone")
        await eventually(_async(lambda: not site.stored(QUOTA).keys() & TREE.keys()))
        (check,) = (check for check in await service.checks() if check.name == "kubernetes-documents")
        assert check.detail == ""


async def eventually(reached: Callable[[], Any]) -> Any:
    """The first result that is true. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await reached()):
            await asyncio.sleep(0.05)
        return found


async def test_resources_of_every_kind_are_followed_refused_and_deleted(real: RealDriver, rest: Rest) -> None:
    site = DocumentSite(real, rest)
    async with site.running():
        for kind in catalog.KINDS:
            await site.apply(kind, "gold", **kind.example)
        for kind in catalog.KINDS:
            await site.until_followed(kind, "gold", "True", 1)
        await site.apply(AUTONOMY, "other", mode="observe", nodePool="gold")
        refused = await site.until_followed(AUTONOMY, "other", "False", 1)
        assert refused["reason"] == "NodePoolTaken"
        await site.apply(AUTONOMY, "gold", mode="throttle", nodePool="silver")
        await site.until_followed(AUTONOMY, "gold", "True", 2)
        await site.until_followed(AUTONOMY, "other", "True", 1)  # its pool is free now
    versions = {kind.name: (await site.read(kind, "gold"))["metadata"]["resourceVersion"] for kind in catalog.KINDS}
    await site.delete(AUTONOMY, "other")
    await site.apply(AUTONOMY, "new", mode="observe", nodePool="other")
    async with site.running():
        await site.until_followed(AUTONOMY, "new", "True", 1)
        await eventually(_async(lambda: set(site.stored(AUTONOMY)) == {"gold", "new"}))
        for kind in catalog.KINDS:  # a restart writes nothing that is there
            assert (await site.read(kind, "gold"))["metadata"]["resourceVersion"] == versions[kind.name]
        for kind, name in ((AUTONOMY, "new"), *((kind, "gold") for kind in catalog.KINDS)):
            await site.delete(kind, name)
        kept = {"default"}  # the quota that a tree always has
        await eventually(_async(lambda: not any(site.stored(kind).keys() - kept for kind in catalog.KINDS)))


@pytest.fixture
def older(rest: Rest) -> Iterator[None]:
    """The definition of Autonomy without a field of its status and without columns; afterwards it is whole again."""
    path = f"{PATHS['CustomResourceDefinition']}/{AUTONOMY.plural}.slackwater.io"
    definition = rest.client.get(path).json()
    (version,) = definition["spec"]["versions"]
    del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["observedGeneration"]
    del version["additionalPrinterColumns"]
    assert rest.client.put(path, json=definition).is_success
    yield
    rest.ensure(PATHS["CustomResourceDefinition"], definition_of(AUTONOMY))


@pytest.mark.usefixtures("older")
async def test_a_definition_of_an_older_version_is_named_and_the_document_holds_all_the_same(
    real: RealDriver, rest: Rest
) -> None:
    site = DocumentSite(real, rest)
    async with site.running() as service:

        async def shown() -> str:
            (check,) = (check for check in await service.checks() if check.name == "kubernetes-documents")
            return check.detail

        async def refused() -> str:
            """The server follows the definition a moment later: until then a status is written."""
            await site.apply(AUTONOMY, "gold", **{**AUTONOMY.example, "evictionsPerHour": next(numbers)})
            await asyncio.sleep(0.3)
            return await shown()

        numbers = itertools.count(1)
        detail = await eventually(refused)
        assert detail.startswith(
            "status of autonomies: the definition of Autonomy in the cluster is of another version"
        )
        assert "make crds" in detail
        assert set(site.stored(AUTONOMY)) == {"gold"}
        await asyncio.to_thread(rest.ensure, PATHS["CustomResourceDefinition"], definition_of(AUTONOMY))

        async def written() -> bool:
            return not await refused()

        await eventually(written)
        await site.delete(AUTONOMY, "gold")
        await eventually(_async(lambda: not site.stored(AUTONOMY)))


def _async(holds: Callable[[], bool]) -> Callable[[], Any]:
    async def reached() -> bool:
        return holds()

    return reached


async def test_profiles_change_pods_while_they_exist_and_uninstall_removes_their_policy(
    real: RealDriver, rest: Rest
) -> None:
    site = DocumentSite(real, rest)
    name = real.name("spark")

    async def labels() -> Mapping[str, str]:
        """Of a pod that would be created."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "none"}], "automountServiceAccountToken": False},
        }
        answer = await asyncio.to_thread(
            rest.client.post, f"/api/v1/namespaces/{NAMESPACE}/pods", json=pod, params=TRIED
        )
        assert answer.status_code == 201, answer.text
        made: Mapping[str, str] = answer.json()["metadata"]["labels"]
        return made

    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await asyncio.to_thread(rest.ensure, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
    async with site.running():
        for colour in ("blue", "green"):
            await site.apply(PROFILE, name, selector={"matchLabels": {"app": name}}, labels={"colour": colour})
            await eventually(_matching(labels, colour))
        await site.until_followed(PROFILE, name, "True", 2)
        reported = [("Normal", "InForce", "ApplyProfile")]  # of both generations: one series
        await eventually(_reported(rest, name, reported))
        of_none = {"name": "of-none", "value": 5500}
        await site.apply(PROFILE, name, selector={"matchLabels": {"app": name}}, tier="batch", priorityClass=of_none)
        reported.append(("Warning", "InForceInPart", "ApplyProfile"))
        await eventually(_reported(rest, name, reported))
        values = [f"v{number:059}" for number in range(100)]
        expressions = [{"key": f"k{number}", "operator": "NotIn", "values": values} for number in range(20)]
        await site.apply(PROFILE, name, selector={"matchExpressions": expressions}, labels={"colour": "green"})
        reported.append(("Warning", "NotInForce", "ApplyProfile"))
        await eventually(_reported(rest, name, reported))
        await site.delete(PROFILE, name)
        await eventually(_gone(rest))
        await site.apply(PROFILE, name, selector={"matchLabels": {"app": name}}, labels={"colour": "red"})
        await site.until_followed(PROFILE, name, "True", 1)
    assert "deleted mutatingadmissionpolicies/" in await asyncio.to_thread(withdraw, real)
    await eventually(_gone(rest))
    await site.delete(PROFILE, name)


def _matching(labels: Callable[[], Any], colour: str) -> Callable[[], Any]:
    async def reached() -> bool:
        return bool((await labels()).get("colour") == colour)

    return reached


def _reported(rest: Rest, name: str, expected: list[tuple[str, str, str]]) -> Callable[[], Any]:
    """The Events of a profile, in their order."""

    async def reached() -> bool:
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        items = (await asyncio.to_thread(rest.client.get, path)).json()["items"]
        about = [item for item in items if item["regarding"]["name"] == name]
        about.sort(key=lambda item: item["eventTime"])
        return [(item["type"], item["reason"], item["action"]) for item in about] == expected

    return reached


def _gone(rest: Rest) -> Callable[[], Any]:
    async def reached() -> bool:
        listed = (await asyncio.to_thread(rest.client.get, POLICIES)).json()["items"]
        return all(item["metadata"]["name"] != "profiles.slackwater.io" for item in listed)

    return reached
