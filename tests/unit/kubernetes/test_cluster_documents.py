"""Custom resources as documents: planned, stored by the services' own API, and answered in their status."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.api_server import MemoryApiServer
from tests.support.kinds import KindScene, no_checks
from tests.unit.kubernetes.test_kubernetes_service import PATIENCE_SECONDS, Cluster

from slackwater.apiserver.objects import MUTATION_BINDINGS, MUTATIONS, QUOTAS, document_kind
from slackwater.apiserver.records import NAMESPACES, PRIORITY_CLASSES
from slackwater.kubernetes.adapters.http_documents import HttpDocuments
from slackwater.kubernetes.domain.document_plan import (
    condition_of,
)
from slackwater.kubernetes.service import KubernetesService
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.profiles.policy import NAME as POLICY
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE as PROFILE
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA
from slackwater.runtime.http import build_app
from slackwater.runtime.platform import Platform
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.settings import HttpSettings

AUTONOMIES, PROFILES, ELASTIC_QUOTAS = document_kind(AUTONOMY), document_kind(PROFILE), document_kind(ELASTIC_QUOTA)
TOKEN = "a-token-that-is-long-enough"  # noqa: S105 - of this test


class DocumentCluster(Cluster):
    """The API server, and the services' API with two kinds. `away`: the services do not answer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(nodes=0)
        self.kinds = {kind.plural: KindScene(kind) for kind in (AUTONOMY, PROFILE, ELASTIC_QUOTA)}
        tokens, self.token = folder / "tokens", folder / "token"
        tokens.write_text(f"kubernetes operator {TOKEN}\nalice operator {TOKEN[::-1]}\n")
        tokens.chmod(0o600)
        self.token.write_text(TOKEN)
        http = HttpSettings(host="127.0.0.1", port=0, tokens_file=tokens)
        app = build_app([resource_router(scene.change) for scene in self.kinds.values()], no_checks, http)
        self._transport, self.away = httpx2.ASGITransport(app=app), False
        self.requests: list[tuple[str, str]] = []
        self.answering = 0

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        if self.away:
            raise httpx2.ConnectError("connection refused")
        self.requests.append((request.method, request.url.path))
        if not any(scene.kind.path in request.url.path for scene in self.kinds.values()):
            return httpx2.Response(200, json={"items": []})  # kinds that this test does not serve
        self.answering += 1
        try:
            return await self._transport.handle_async_request(request)
        finally:
            self.answering -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KubernetesService]:
        for scene in self.kinds.values():
            await scene.open()
        documents = HttpDocuments("http://127.0.0.1", self.token, _Transport(self))

        async def nothing() -> None:
            """The twin needs no connection."""

        def build(settings: KubernetesSettings, platform: Platform) -> KubernetesService:
            return KubernetesService(settings, platform, self.server, nothing, documents.close, documents)

        async with self.scene.running(build, self.settings) as service:
            await self.scene.advance(PATIENCE_SECONDS)
            yield service

    async def seconds(self, seconds: int) -> None:
        """A request takes many turns of the event loop, and threads of the server; a step of the clock waits for
        neither."""
        for _ in range(10 * seconds):
            await self.scene.advance(0.1)
            while self.answering:
                await asyncio.sleep(0.001)

    async def alice(self, method: str, kind: str, name: str, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {TOKEN[::-1]}"}
        async with httpx2.AsyncClient(transport=self._transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, f"/v1/{kind}/{name}", headers=headers, **options)

    async def apply(self, kind: Any, name: str, **spec: Any) -> None:
        """As `kubectl apply`."""
        self.server.put(kind, {"metadata": {"name": name}, "spec": spec})
        await self.seconds(2)

    def stored(self, plural: str) -> dict[str, Any]:
        rows = self.kinds[plural].store.rows.values()
        return {row.name: (row.document["spec"]["mode"], row.author) for row in rows if row.document is not None}

    def names(self, plural: str) -> set[str]:
        return {row.name for row in self.kinds[plural].store.rows.values() if row.document is not None}

    def condition(self, kind: Any, name: str) -> Any:
        return condition_of(self.server.document(kind, name)["status"])

    def status_writes(self) -> int:
        return len([plural for plural, _ in self.server.applied if plural.endswith("/status")])


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, cluster: DocumentCluster) -> None:
        self._cluster = cluster

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._cluster.handle(request)


@pytest.fixture
def cluster(tmp_path: Path) -> DocumentCluster:
    return DocumentCluster(tmp_path)


async def test_a_resource_is_stored_by_the_name_of_the_cluster_and_answered(cluster: DocumentCluster) -> None:
    async with cluster.running():
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        assert cluster.stored("autonomies") == {"gold": ("evict", "kubernetes")}
        condition = cluster.condition(AUTONOMIES, "gold")
        assert (condition["status"], condition["observedGeneration"]) == ("True", 1)
        await cluster.apply(AUTONOMIES, "gold", mode="throttle", nodePool="gold")
        assert cluster.stored("autonomies") == {"gold": ("throttle", "kubernetes")}
        status = cluster.server.document(AUTONOMIES, "gold")["status"]
        assert (status["observedGeneration"], condition_of(status)["observedGeneration"]) == (2, 2)
        written = cluster.status_writes()
        await cluster.seconds(65)
        assert cluster.status_writes() == written
        cluster.server.delete(AUTONOMIES, "gold")
        await cluster.seconds(2)
    assert cluster.stored("autonomies") == {}


async def test_a_resource_that_comes_while_a_status_is_written_is_followed_too(
    cluster: DocumentCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = MemoryApiServer.apply_status

    async def write_slowly(server: MemoryApiServer, *arguments: Any) -> Any:
        monkeypatch.undo()
        server.put(AUTONOMIES, {"metadata": {"name": "late"}, "spec": {"mode": "evict", "nodePool": "late"}})
        for _ in range(20):  # the watch has shown it by then
            await asyncio.sleep(0)
        return await write(server, *arguments)

    async with cluster.running():
        monkeypatch.setattr(MemoryApiServer, "apply_status", write_slowly)
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        await cluster.seconds(5)
        assert cluster.names("autonomies") == {"gold", "late"}


async def test_what_its_author_is_to_know_is_in_the_condition_of_a_resource_that_is_followed(
    cluster: DocumentCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written once: nothing is tried again for it."""
    hooks = cluster.kinds["autonomies"].change.hooks
    monkeypatch.setattr(hooks, "notice", lambda value: "no node is in it", raising=False)
    async with cluster.running():
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        condition = cluster.condition(AUTONOMIES, "gold")
        assert (condition["status"], condition["reason"]) == ("True", "Followed")
        assert condition["message"] == "no node is in it"
        written = cluster.status_writes()
        await cluster.seconds(65)
        assert cluster.status_writes() == written


async def test_what_the_service_refuses_is_said_and_the_former_generation_stays(cluster: DocumentCluster) -> None:
    async with cluster.running():
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        await cluster.apply(AUTONOMIES, "gold", mode="destroy", nodePool="gold")
        condition, status = cluster.condition(AUTONOMIES, "gold"), cluster.server.document(AUTONOMIES, "gold")["status"]
        assert (condition["status"], condition["observedGeneration"], status["observedGeneration"]) == ("False", 2, 1)
        assert "spec.mode" in condition["message"]
        assert cluster.stored("autonomies") == {"gold": ("evict", "kubernetes")}


async def test_a_value_that_must_be_unique_is_taken_over_when_it_is_free(cluster: DocumentCluster) -> None:
    async with cluster.running():
        await cluster.apply(AUTONOMIES, "one", mode="evict", nodePool="gold")
        await cluster.apply(AUTONOMIES, "two", mode="throttle", nodePool="gold")
        assert cluster.condition(AUTONOMIES, "two")["reason"] == "NodePoolTaken"
        cluster.server.delete(AUTONOMIES, "one")
        await cluster.seconds(10)
    assert cluster.stored("autonomies") == {"two": ("throttle", "kubernetes")}
    assert cluster.condition(AUTONOMIES, "two")["status"] == "True"


TREE = {"a-root": "", "b-branch": "a-root", "c-leaf": "b-branch", "0-leaf": "b-branch"}


@pytest.mark.parametrize("away", [False, True])
async def test_a_tree_comes_and_goes_in_any_order(cluster: DocumentCluster, away: bool) -> None:
    async def change(deleted: bool) -> None:
        for name, parent in sorted(TREE.items()):  # a parent may come after its child, and go before it
            if deleted:
                cluster.server.delete(ELASTIC_QUOTAS, name)
            else:
                spec = {"isParent": "leaf" not in name, "max": {"cpu": "8"}, **({"parent": parent} if parent else {})}
                cluster.server.put(ELASTIC_QUOTAS, {"metadata": {"name": name}, "spec": spec})

    async with cluster.running():
        await change(deleted=False)
        await cluster.seconds(2)
        assert cluster.names("elasticquotas") == {*TREE, "default"}
        if not away:
            await change(deleted=True)
            await cluster.seconds(2)
    if away:
        await change(deleted=True)
        async with cluster.running():
            await cluster.seconds(2)
    assert cluster.names("elasticquotas") == {"default"}


async def test_a_parent_that_is_deleted_first_goes_when_its_last_child_does(cluster: DocumentCluster) -> None:
    async with cluster.running() as service:
        await cluster.apply(ELASTIC_QUOTAS, "parent", isParent=True, max={"cpu": "8"})
        await cluster.apply(ELASTIC_QUOTAS, "child", parent="parent", max={"cpu": "8"})
        cluster.server.delete(ELASTIC_QUOTAS, "parent")
        await cluster.seconds(20)
        check = next(check for check in await service.checks() if check.name == "kubernetes-documents")
        assert "elasticquotas/parent: " in check.detail
        assert "has 1 children (child): delete or move them first" in check.detail
        await cluster.seconds(60)  # so that it is tried once a minute
        cluster.server.delete(ELASTIC_QUOTAS, "child")
        await cluster.seconds(12)
        check = next(check for check in await service.checks() if check.name == "kubernetes-documents")
        assert (cluster.names("elasticquotas"), check.detail) == ({"default"}, "")


async def test_changes_and_deletions_while_the_service_was_away_are_made_up(cluster: DocumentCluster) -> None:
    async with cluster.running():
        for name in ("kept", "changed", "gone", "anew"):
            await cluster.apply(AUTONOMIES, name, mode="evict", nodePool=name)
    cluster.server.put(AUTONOMIES, {"metadata": {"name": "changed"}, "spec": {"mode": "throttle", "nodePool": "x"}})
    cluster.server.delete(AUTONOMIES, "gone")
    cluster.server.delete(AUTONOMIES, "anew")
    cluster.server.put(AUTONOMIES, {"metadata": {"name": "anew"}, "spec": {"mode": "observe", "nodePool": "anew"}})
    cluster.server.compact()
    cluster.requests.clear()
    async with cluster.running():
        await cluster.seconds(2)
        assert {name: mode for name, (mode, _) in cluster.stored("autonomies").items()} == {
            "kept": "evict",
            "changed": "throttle",
            "anew": "observe",
        }
        assert ("PUT", "/v1/autonomies/kept") not in cluster.requests
        with cluster.server.down():
            await cluster.seconds(2)
        cluster.server.delete(AUTONOMIES, "kept")
        cluster.server.compact()  # the watch begins anew, with a list
        await cluster.seconds(10)
        assert set(cluster.stored("autonomies")) == {"changed", "anew"}


async def test_a_service_that_does_not_answer_is_waited_for(cluster: DocumentCluster) -> None:
    async with cluster.running():
        cluster.away = True
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        condition = cluster.condition(AUTONOMIES, "gold")
        assert (condition["status"], condition["reason"]) == ("Unknown", "ServiceUnavailable")
        cluster.away = False
        await cluster.seconds(10)
        assert cluster.condition(AUTONOMIES, "gold")["status"] == "True"


async def test_documents_are_changed_in_the_cluster_alone_where_it_is_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_RESOURCES_SOURCE", "kubernetes")
    cluster = DocumentCluster(tmp_path)
    body = cluster.kinds["autonomies"].document(name="gold")
    async with cluster.running():
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        for method, options in (("PUT", {"json": body}), ("DELETE", {})):
            answer = await cluster.alice(method, "autonomies", "gold", **options)
            assert (answer.status_code, answer.json()["code"]) == (409, "documents_from_cluster")
            assert "kubectl" in answer.json()["detail"]
        tried = await cluster.alice("PUT", "autonomies", "gold", json=body, params={"dryRun": "true"})
        assert tried.status_code == 200
    assert cluster.stored("autonomies") == {"gold": ("evict", "kubernetes")}


async def test_a_kind_whose_definition_is_deleted_is_named_and_followed_again_when_it_is_back(
    cluster: DocumentCluster,
) -> None:
    async with cluster.running() as service:
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        await cluster.apply(PROFILES, "batch", selector={"matchLabels": {"app": "b"}}, labels={"a": "b"})
        cluster.server.delete_definition(AUTONOMIES)
        await cluster.seconds(20)
        check = next(check for check in await service.checks() if check.name == "kubernetes-documents")
        assert check.detail == "autonomies: the cluster does not serve autonomies"
        assert cluster.stored("autonomies") == {}, "its resources were deleted with it"
        await cluster.apply(PROFILES, "other", selector={"matchLabels": {"app": "c"}}, labels={"a": "b"})
        assert cluster.condition(PROFILES, "other")["status"] == "True"
        cluster.server.unserved.clear()
        await cluster.apply(AUTONOMIES, "gold", mode="throttle", nodePool="gold")
        await cluster.seconds(10)
        assert cluster.stored("autonomies") == {"gold": ("throttle", "kubernetes")}
        check = next(check for check in await service.checks() if check.name == "kubernetes-documents")
        assert check.detail == ""


async def test_a_service_that_runs_again_opens_its_client_anew(cluster: DocumentCluster) -> None:
    documents = HttpDocuments("http://127.0.0.1", cluster.token, _Transport(cluster))
    await cluster.kinds["autonomies"].open()
    for _ in range(2):
        assert await documents.read_all(AUTONOMY) == []
        await documents.close()


async def test_a_document_that_was_changed_another_way_becomes_the_clusters_again(cluster: DocumentCluster) -> None:
    async with cluster.running():
        await cluster.apply(AUTONOMIES, "gold", mode="evict", nodePool="gold")
        changed = cluster.kinds["autonomies"].document(name="gold", mode="observe", nodePool="gold")
        assert (await cluster.alice("PUT", "autonomies", "gold", json=changed)).status_code == 200
        await cluster.seconds(61)
        await cluster.seconds(1)
    assert cluster.stored("autonomies") == {"gold": ("evict", "kubernetes")}


async def test_profiles_are_one_policy_that_comes_changes_and_goes_with_them(cluster: DocumentCluster) -> None:
    spec = dict(PROFILE.example)
    async with cluster.running():
        await cluster.apply(PROFILES, "spark", **spec)
        policy = cluster.server.document(MUTATIONS, POLICY)["spec"]
        assert len(policy["mutations"]) == 1
        assert cluster.server.document(MUTATION_BINDINGS, POLICY)["spec"] == {"policyName": POLICY}
        assert cluster.condition(PROFILES, "spark")["status"] == "True"
        await cluster.apply(PROFILES, "more", **{**spec, "labels": {"a": "b"}})
        assert len(cluster.server.document(MUTATIONS, POLICY)["spec"]["mutations"]) == 2
        cluster.server.put(MUTATIONS, {"metadata": {"name": POLICY}, "spec": {**policy, "mutations": []}})
        await cluster.seconds(2)
        assert len(cluster.server.document(MUTATIONS, POLICY)["spec"]["mutations"]) == 2
        applies = len(cluster.server.applied)
        await cluster.seconds(65)
        assert len(cluster.server.applied) == applies
        for name in ("spark", "more"):
            cluster.server.delete(PROFILES, name)
        await cluster.seconds(2)
        for kind in (MUTATIONS, MUTATION_BINDINGS):
            with pytest.raises(KeyError):
                cluster.server.document(kind, POLICY)


async def test_limited_namespaces_are_in_the_policy_and_in_the_condition(cluster: DocumentCluster) -> None:
    quota = {"metadata": {"namespace": "team", "name": "compute"}, "spec": {"hard": {"requests.cpu": "4"}}}
    async with cluster.running():
        cluster.server.put(NAMESPACES, {"metadata": {"name": "team"}})
        await cluster.apply(PROFILES, "spark", selector={}, tier="batch")
        assert cluster.condition(PROFILES, "spark")["reason"] == "Followed"
        cluster.server.put(QUOTAS, quota)
        await cluster.seconds(2)
        (limited,) = cluster.server.document(MUTATIONS, POLICY)["spec"]["variables"]
        assert "'team'" in limited["expression"]
        condition = cluster.condition(PROFILES, "spark")
        assert (condition["status"], condition["reason"]) == ("True", "InForceInPart")
        assert condition["message"] == "pods are left as they are in limited namespaces: team (ResourceQuota compute)"
        cluster.server.delete(QUOTAS, "team/compute")
        await cluster.seconds(2)
        (limited,) = cluster.server.document(MUTATIONS, POLICY)["spec"]["variables"]
        assert "team" not in limited["expression"]
        assert cluster.condition(PROFILES, "spark")["reason"] == "Followed"


async def test_a_priority_class_that_is_missing_leaves_priorities_until_it_is_there(cluster: DocumentCluster) -> None:
    stated = PROFILE.example["priorityClass"]

    def patch() -> str:
        return str(cluster.server.document(MUTATIONS, POLICY)["spec"]["mutations"][0]["jsonPatch"]["expression"])

    async with cluster.running():
        await cluster.apply(PROFILES, "spark", **PROFILE.example)
        condition = cluster.condition(PROFILES, "spark")
        assert (condition["status"], condition["reason"]) == ("True", "InForceInPart")
        assert condition["message"] == f"priorities stay: PriorityClass {stated['name']} is missing"
        assert "priorityClassName" not in patch()
        cluster.server.put(PRIORITY_CLASSES, {"metadata": {"name": stated["name"]}, **stated})
        await cluster.seconds(31)
        assert "priorityClassName" in patch()
        await cluster.seconds(61)
        assert cluster.condition(PROFILES, "spark")["reason"] == "Followed"


async def test_profiles_and_refused_documents_are_reported_as_events(cluster: DocumentCluster) -> None:
    def seen() -> list[tuple[str, str, str]]:
        made = [series.event for series in cluster.server.events.values()]
        return [(one.subject.kind, one.subject.name, one.reason) for one in made]

    async with cluster.running():
        stated = PROFILE.example["priorityClass"]
        cluster.server.put(PRIORITY_CLASSES, {"metadata": {"name": stated["name"]}, **stated})
        await cluster.apply(PROFILES, "spark", **PROFILE.example)
        await cluster.seconds(2)
        assert seen() == [("ClusterColocationProfile", "spark", "InForce")]
        await cluster.apply(AUTONOMIES, "gold", mode="no such mode")
        await cluster.seconds(3)
        assert seen()[1:] == [("Autonomy", "gold", "Refused")]
    async with cluster.running():
        await cluster.seconds(5)
        assert ("ClusterColocationProfile", "spark", "InForce") not in seen()[2:], "a restart is no news"


async def test_a_profile_that_no_policy_can_hold_is_named_and_others_hold(cluster: DocumentCluster) -> None:
    long = {f"k{number}": "x" * 4000 for number in range(30)}
    async with cluster.running():
        await cluster.apply(PROFILES, "fine", selector={}, labels={"a": "b"})
        await cluster.apply(PROFILES, "long", selector={}, annotations=long)
        await cluster.seconds(2)
        condition = cluster.condition(PROFILES, "long")
        assert (condition["status"], condition["reason"]) == ("False", "NotInForce")
        assert "no policy of more than 100,000 characters" in condition["message"]
        reported = {series.event.subject.name: series.event.reason for series in cluster.server.events.values()}
        assert reported == {"fine": "InForce", "long": "NotInForce"}


async def test_without_the_right_to_list_quotas_no_policy_is_applied_and_the_condition_says_so(
    cluster: DocumentCluster,
) -> None:
    cluster.server.forbidden |= {QUOTAS.plural}
    async with cluster.running():
        await cluster.seconds(40)
        await cluster.apply(PROFILES, "spark", **PROFILE.example)
        assert "ResourceQuotas and LimitRanges cannot be listed" in cluster.condition(PROFILES, "spark")["message"]
        with pytest.raises(KeyError):
            cluster.server.document(MUTATIONS, POLICY)


async def test_a_cluster_without_admission_policies_says_so_in_the_condition(cluster: DocumentCluster) -> None:
    cluster.server.forbidden |= {MUTATIONS.plural}
    async with cluster.running():
        await cluster.seconds(40)
        await cluster.apply(PROFILES, "spark", **PROFILE.example)
        condition = cluster.condition(PROFILES, "spark")
        assert (condition["status"], condition["reason"]) == ("False", "NotInForce")
