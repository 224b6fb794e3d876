"""What tests do to a cluster beside the port: as administrators, kubelets and other controllers do it."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import yaml
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from tests.kubernetes.manifests import adapter, find
from tests.support.api_server import MemoryApiServer, optional_quantities

from slackwater.apiserver.port import ApiServer
from slackwater.apiserver.records import NODES, WatchedKind
from slackwater.kubernetes.adapters.http_api_server import open_api_server

Document = dict[str, Any]
RBAC = "apis/rbac.authorization.k8s.io/v1"
ROLES = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/slackwater/roles",
    "RoleBinding": f"{RBAC}/namespaces/slackwater/rolebindings",
}
SECRETS = "api/v1/namespaces/slackwater/secrets"
ACCOUNT = "api/v1/namespaces/slackwater/serviceaccounts/kubernetes"
KUBELET = "kubelet"
PARTS = ("capacity", "allocatable")
MERGE = {"Content-Type": "application/merge-patch+json"}


class ClusterDriver(Protocol):
    """`api` is the server under test; the rest prepares what it shows."""

    @property
    def api(self) -> ApiServer: ...

    def name(self, stem: str) -> str:
        """A name that no other test uses: the cluster is shared."""
        ...

    async def put(self, kind: WatchedKind[Any], document: Document) -> None:
        """Create an object, or write over it, with its status."""
        ...

    async def delete(self, kind: WatchedKind[Any], key: str) -> None: ...

    async def document(self, kind: WatchedKind[Any], key: str) -> Document: ...

    async def write_lent(self, node: str, manager: str, amounts: Mapping[str, int | None]) -> None:
        """Write amounts to a node's status as another field manager, or remove them (None)."""
        ...

    async def register(self, document: Document) -> None:
        """Create a node with its status in one request, as a kubelet does."""
        ...

    async def write_status(self, node: str, part: str, amounts: Mapping[str, str], manager: str = KUBELET) -> None:
        """Write amounts to capacity or allocatable as a kubelet does, or another manager."""
        ...

    async def apply_status(self, node: str, manager: str, amounts: Mapping[str, str]) -> None:
        """Apply amounts to both parts of a node's status as another field manager, with force."""
        ...

    async def mark(self, node: str, key: str) -> Document:
        """Taint, label and annotate a node as an administrator does; returns the node."""
        ...

    async def remove_managers(self, node: str) -> None:
        """Remove the server's notes on the managers of a node's fields."""
        ...


class MemoryDriver:
    def __init__(self) -> None:
        self.api = MemoryApiServer()

    def name(self, stem: str) -> str:
        return stem

    async def put(self, kind: WatchedKind[Any], document: Document) -> None:
        self.api.put(kind, document)

    async def delete(self, kind: WatchedKind[Any], key: str) -> None:
        self.api.delete(kind, key)

    async def document(self, kind: WatchedKind[Any], key: str) -> Document:
        return self.api.document(kind, key)

    async def write_lent(self, node: str, manager: str, amounts: Mapping[str, int | None]) -> None:
        self.api.write_lent(node, manager, amounts)

    async def register(self, document: Document) -> None:
        self.api.put(NODES, document)

    async def write_status(self, node: str, part: str, amounts: Mapping[str, str], manager: str = KUBELET) -> None:
        self.api.write_status(node, manager, {part: amounts})

    async def apply_status(self, node: str, manager: str, amounts: Mapping[str, str]) -> None:
        self.api.write_status(node, manager, dict.fromkeys(PARTS, amounts))

    async def mark(self, node: str, key: str) -> Document:
        document = self.api.document(NODES, node)
        _mark(document, key)
        self.api.put(NODES, document)
        return document

    async def remove_managers(self, node: str) -> None:
        self.api.remove_managers(node)


class RealDriver:
    """Speaks to the API server as an administrator; `api` as the service's account."""

    def __init__(self, api: ApiServer, admin: httpx2.AsyncClient, kubeconfig: Path) -> None:
        self.api = api
        self.kubeconfig = kubeconfig
        """Of the service's account."""
        self._admin = admin
        self._prefix = uuid.uuid4().hex[:8]
        self._created: list[str] = []
        self._numbers = itertools.count()

    def name(self, stem: str) -> str:
        return f"{stem}-{self._prefix}"

    async def put(self, kind: WatchedKind[Any], document: Document) -> None:
        name, collection = document["metadata"]["name"], _collection(kind, document["metadata"].get("namespace"))
        document = {"apiVersion": f"{kind.group}/v1".lstrip("/"), "kind": kind.kind, **document}
        path = f"{collection}/{name}"
        answer = await self._admin.post(collection, json=document)
        if answer.status_code == httpx2.codes.CONFLICT:
            await self._done("PATCH", path, {**document, "status": None})
        else:
            assert answer.is_success, answer.text
            self._created.append(path)
        if document.get("status"):
            await self._done("PATCH", f"{path}/status", {"status": document["status"]})

    async def delete(self, kind: WatchedKind[Any], key: str) -> None:
        path = _path(kind, key)
        await self._done("DELETE", path, {"gracePeriodSeconds": 0})
        self._created.remove(path)

    async def document(self, kind: WatchedKind[Any], key: str) -> Document:
        return await self._done("GET", _path(kind, key))

    async def write_lent(self, node: str, manager: str, amounts: Mapping[str, int | None]) -> None:
        written = optional_quantities(amounts)
        status = {"status": {"capacity": written, "allocatable": written}}
        await self._done("PATCH", f"api/v1/nodes/{node}/status?fieldManager={manager}", status)

    async def register(self, document: Document) -> None:
        document = {"apiVersion": "v1", "kind": "Node", **document}
        await self._done("POST", "api/v1/nodes?fieldManager=kubelet", document)
        self._created.append(f"api/v1/nodes/{document['metadata']['name']}")

    async def write_status(self, node: str, part: str, amounts: Mapping[str, str], manager: str = KUBELET) -> None:
        status = {"status": {part: amounts}}
        await self._done("PATCH", f"api/v1/nodes/{node}/status?fieldManager={manager}", status)

    async def apply_status(self, node: str, manager: str, amounts: Mapping[str, str]) -> None:
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        answer = await self._admin.patch(
            f"api/v1/nodes/{node}/status",
            params={"fieldManager": manager, "force": "true"},
            json={**document, "status": {part: dict(amounts) for part in PARTS}},
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        assert answer.is_success, answer.text

    async def mark(self, node: str, key: str) -> Document:
        while True:
            document = await self.document(NODES, node)
            _mark(document, key)
            answer = await self._admin.put(f"api/v1/nodes/{node}?fieldManager=kubectl-edit", json=document)
            if answer.status_code != httpx2.codes.CONFLICT:
                assert answer.is_success, answer.text
                return await self.document(NODES, node)

    async def remove_managers(self, node: str) -> None:
        await self._done("PATCH", f"api/v1/nodes/{node}", {"metadata": {"managedFields": [{}]}})

    async def remove(self, kind: WatchedKind[Any], key: str) -> None:
        """Delete an object that may be there."""
        await self._admin.request("DELETE", _path(kind, key))

    async def grant(self, rules: Sequence[Document], kind: str = "ClusterRole") -> None:
        """Make these all the rights of the service's account, of one kind of role."""
        document = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind}
        metadata = {"name": "slackwater-kubernetes"}
        await applied(self._admin, ROLES[kind], {**document, "metadata": metadata, "rules": rules})

    async def warnings_of(self, document: Document) -> Sequence[str]:
        """Apply a manifest without keeping it; returns the warnings. Fails for an unknown field."""
        group, _, version = document["apiVersion"].rpartition("/")
        plural = f"{document['kind'].lower()}s".replace("ys", "ies")
        prefix = f"apis/{group}/{version}" if group else f"api/{version}"
        namespace = document["metadata"].get("namespace")
        path = f"{prefix}/namespaces/{namespace}/{plural}" if namespace else f"{prefix}/{plural}"
        query = {"fieldManager": "tests", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        name = document["metadata"]["name"]
        answer = await self._admin.patch(f"{path}/{name}", params=query, json=document, headers=headers)
        assert answer.is_success, answer.text
        return answer.headers.get_list("Warning")

    async def clean(self) -> None:
        """Delete what this test has created, the newest first."""
        for path in reversed(self._created):
            await self._admin.request("DELETE", path, json={"gracePeriodSeconds": 0})

    async def _done(self, method: str, path: str, body: Document | None = None) -> Document:
        headers = MERGE if method == "PATCH" else {}
        answer = await self._admin.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        found: Document = answer.json()
        return found


def _mark(document: Document, key: str) -> None:
    for field in ("labels", "annotations"):
        document["metadata"].setdefault(field, {})[f"example.com/{key}"] = "1"
    taints = [taint for taint in document["spec"].get("taints") or () if taint["key"] != key]
    document["spec"]["taints"] = [*taints, {"key": key, "effect": "NoSchedule"}]


def rules(kind: str = "ClusterRole") -> Sequence[Document]:
    """The rights that the manifests give to the service: in all namespaces, or by its Role in its own."""
    rules: Sequence[Document] = find(rights(), kind, "slackwater-kubernetes")["rules"]
    return rules


def rights() -> Sequence[Document]:
    """Roles and bindings of the service, with every feature."""
    return [part for part in adapter() if part["kind"] in ROLES]


def granted(rules: Sequence[Document]) -> Sequence[tuple[str, str, str]]:
    """API group, resource and verb of every right."""
    return [
        (rule["apiGroups"][0], resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


@asynccontextmanager
async def real_driver(admin_kubeconfig: Path, folder: Path) -> AsyncIterator[RealDriver]:
    """A driver whose `api` signs in with a token of the service's account, which has the rights of the manifests."""
    config = KubeConfig.from_file(admin_kubeconfig).get()
    assert config is not None
    async with AsyncClient(config, ConnectionParams(trust_env=False)) as admin:
        await applied(admin, "api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **_named("slackwater")})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", **_named("kubernetes")}
        await applied(admin, ACCOUNT.rpartition("/")[0], account)
        for part in rights():
            await applied(admin, ROLES[part["kind"]], part)
        await applied(admin, SECRETS, find(adapter(), "Secret", "kubernetes-webhook"))
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await admin.post(f"{ACCOUNT}/token", json=request)).raise_for_status().json()["status"]["token"]
        kubeconfig = folder / "service.kubeconfig"
        document = yaml.safe_load(admin_kubeconfig.read_text())
        document["users"] = [{**user, "user": {"token": token}} for user in document["users"]]
        kubeconfig.write_text(yaml.safe_dump(document))
        async with open_api_server(str(kubeconfig)) as api:
            driver = RealDriver(api, admin, kubeconfig)
            try:
                yield driver
            finally:
                await driver.clean()


async def applied(admin: httpx2.AsyncClient, collection: str, document: Document) -> None:
    answer = await admin.patch(
        f"{collection}/{document['metadata']['name']}",
        params={"fieldManager": "tests", "force": "true"},
        json=document,
        headers={"Content-Type": "application/apply-patch+yaml"},
    )
    assert answer.is_success, answer.text


def _named(name: str) -> Document:
    return {"metadata": {"name": name}}


def _collection(kind: WatchedKind[Any], namespace: str | None) -> str:
    if not namespace:
        return kind.path
    head, _, plural = kind.path.rpartition("/")
    return f"{head}/namespaces/{namespace}/{plural}"


def _path(kind: WatchedKind[Any], key: str) -> str:
    namespace, _, name = key.rpartition("/")
    return f"{_collection(kind, namespace)}/{name}"
