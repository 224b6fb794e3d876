"""A cluster of nodes and pods that kwok plays, and a log of what became of its pods. For tests and for the bench.

Prod pods are bound to their node from the start. Batch pods borrow what is lent, so the stock scheduler places them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig

from slackwater.apiserver.port import WatchChange
from slackwater.apiserver.records import NODES, PODS, PodRecord, WatchedKind
from slackwater.kubernetes.adapters.http_api_server import HttpApiServer, open_api_server

Document = dict[str, Any]
PARTS = ("controllers", "scheduler", "kwok")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
NAMESPACE = "lending"
PRIORITIES: Mapping[str, int] = {"prod": 9_500, "batch-low": 5_100, "batch-high": 5_900}
CPU, MEMORY = "slackwater.io/batch-cpu", "slackwater.io/batch-memory"
AT_ONCE = 24
PAGE = 500


@dataclass(frozen=True, slots=True)
class Gone:
    """A pod that was deleted: when the watch showed it, and what it was."""

    at: float
    pod: PodRecord


@dataclass(slots=True)
class PodLog:
    """What a watch of all pods shows: those that exist, by key, and those that were deleted, in order."""

    pods: dict[str, PodRecord] = field(default_factory=dict)
    gone: list[Gone] = field(default_factory=list)
    fewest: dict[str, int] = field(default_factory=dict)
    """By value of the label `app`: the fewest running pods at any time since `count_from`."""
    running: dict[str, set[str]] = field(default_factory=dict)

    def note(self, change: WatchChange, pod: PodRecord) -> None:
        app, lives = dict(pod.labels).get("app", ""), change is not WatchChange.DELETED and not pod.deleting
        held = self.running.setdefault(app, set())
        (held.add if lives and pod.phase == "Running" else held.discard)(pod.uid)
        if app in self.fewest:
            self.fewest[app] = min(self.fewest[app], len(held))
        if change is WatchChange.DELETED:
            self.pods.pop(pod.key, None)
            self.gone.append(Gone(time.time(), pod))
        else:
            self.pods[pod.key] = pod

    def count_from_now(self) -> None:
        """Begin to count the fewest running pods of each app."""
        self.fewest = {app: len(held) for app, held in self.running.items()}

    def by_node(self) -> Mapping[str, Sequence[PodRecord]]:
        """The running pods of each node."""
        found: dict[str, list[PodRecord]] = {}
        for pod in self.pods.values():
            if pod.phase == "Running" and not pod.deleting:
                found.setdefault(pod.node, []).append(pod)
        return found


class KwokCluster:
    """Speaks to the API server as an administrator. `log` follows the pods while the cluster is open."""

    def __init__(self, admin: httpx2.AsyncClient, api: HttpApiServer) -> None:
        self.admin = admin
        self.api = api
        self.log = PodLog()
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def prepare(self) -> None:
        """The namespace and the priority classes."""
        await self._post("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, value in PRIORITIES.items():
            await self._post("apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": name}, "value": value})
        path = f"api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        async with asyncio.timeout(60):
            while not (await self.admin.get(path)).is_success:  # no pod is admitted before
                await asyncio.sleep(0.1)

    async def add_nodes(self, names: Sequence[str], *, cpu: str = "64", memory: str = "256Gi") -> None:
        """Create nodes, and wait until pods may be bound to them."""
        amounts = {"cpu": cpu, "memory": memory, "pods": "110"}

        async def add(name: str) -> None:
            labels = {"kubernetes.io/hostname": name}
            status = {"capacity": amounts, "allocatable": amounts}
            await self._post("api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

        await self._all(add(name) for name in names)
        await self.until(lambda: self._ready_nodes(names), "nodes are ready")

    async def _ready_nodes(self, names: Sequence[str]) -> bool:
        nodes = await self.listed(NODES)
        ready = {one["metadata"]["name"] for one in nodes if _is_ready(one) and not one["spec"].get("taints")}
        return ready >= set(names)

    async def add_pods(self, documents: Iterable[Document]) -> None:
        path = f"api/v1/namespaces/{NAMESPACE}/pods"
        await self._all(self._post(path, document) for document in documents)

    async def remove_pod(self, name: str) -> None:
        answer = await self.admin.delete(f"api/v1/namespaces/{NAMESPACE}/pods/{name}")
        assert answer.is_success, answer.text

    async def set_budget(self, app: str, keep: int) -> None:
        """A budget that keeps so many pods with this value of the label `app`."""
        spec = {"minAvailable": keep, "selector": {"matchLabels": {"app": app}}}
        path = f"apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{app}"
        document = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec}
        query = {"fieldManager": "tests", "force": "true"}
        headers = {"Content-Type": "application/apply-patch+yaml"}
        answer = await self.admin.patch(path, params=query, json=document, headers=headers)
        assert answer.is_success, answer.text

    async def allowed(self, app: str) -> int:
        """How many disruptions the controller allows now."""
        path = f"apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{app}"
        return int((await self.admin.get(path)).json().get("status", {}).get("disruptionsAllowed", 0))

    async def listed(self, kind: WatchedKind[Any]) -> list[Document]:
        """All objects of a kind, whole."""
        found, page = list[Document](), ""
        while True:
            query = {"limit": str(PAGE), **({"continue": page} if page else {})}
            answer = (await self.admin.get(kind.path, params=query)).json()
            found += answer["items"]
            page = answer["metadata"].get("continue", "")
            if not page:
                return found

    async def unscheduled(self, name: str) -> str:
        """Why the scheduler does not place a pod; empty if it has not said so."""
        pod = (await self.admin.get(f"api/v1/namespaces/{NAMESPACE}/pods/{name}")).json()
        for condition in pod.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition.get("message", ""))
        return ""

    async def writes(self) -> Mapping[str, int]:
        """Writes that only Slackwater makes here, as the API server counts them: `node status` are those that set
        amounts (kwok too makes patches, as withdrawals are)."""
        found = {"node status": 0, "evictions": 0, "evictions refused": 0}
        for line in (await self.admin.get("metrics")).text.splitlines():
            if not line.startswith("apiserver_request_total{"):
                continue
            count = int(float(line.rpartition(" ")[2]))
            if all(part in line for part in ('resource="nodes"', 'subresource="status"', 'verb="APPLY"')):
                found["node status"] += count
            if all(part in line for part in ('resource="pods"', 'subresource="eviction"')):
                found["evictions" if 'code="201"' in line else "evictions refused"] += count
        return found

    async def follow(self) -> None:
        """Keep the log until cancelled."""
        version = ""
        while True:
            if not version:
                page = await self.api.list_page(PODS, 100_000)
                version = page.version
                for pod in page.items:
                    self.log.note(WatchChange.UPSERTED, pod)
            async with aclosing(self.api.watch(PODS, version)) as events:  # type: ignore[type-var]
                async for event in events:
                    version = event.version
                    if event.item is not None:
                        self.log.note(event.change, event.item)

    async def until(self, holds: Any, what: str, seconds: float = 600.0) -> None:
        """Wait for a condition, which may be a coroutine function. Raises AssertionError after so long."""
        deadline = time.monotonic() + seconds
        while True:
            answer = holds()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return
            assert time.monotonic() < deadline, f"{what}: not after {seconds:g} s"
            await asyncio.sleep(0.1)

    async def _post(self, path: str, document: Document) -> None:
        async with self._at_once:
            answer = await self.admin.post(path, json=document)
        assert answer.is_success or answer.status_code == httpx2.codes.CONFLICT, answer.text

    async def _all(self, calls: Iterable[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(call)


def prod_pod(name: str, node: str, app: str, *, cpu: str = "1", memory: str = "8Gi") -> Document:
    """Bound to its node."""
    return _pod(name, app, "prod", {"cpu": cpu, "memory": memory}, {"nodeName": node})


def batch_pod(name: str, app: str, priority: str, cpu_milli: int, memory_bytes: int, *, node: str = "") -> Document:
    """Asks for lent resources, on any node or only on `node`."""
    selector = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return _pod(name, app, priority, {CPU: str(cpu_milli), MEMORY: str(memory_bytes)}, selector)


def _pod(name: str, app: str, priority: str, amounts: Mapping[str, str], more: Mapping[str, Any]) -> Document:
    container = {"name": "c", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"priorityClassName": priority, "containers": [container], "terminationGracePeriodSeconds": 1, **more}
    return {"metadata": {"namespace": NAMESPACE, "name": name, "labels": {"app": app}}, "spec": spec}


def _is_ready(node: Document) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@asynccontextmanager
async def kwok_cluster(kubeconfig: Path) -> AsyncIterator[KwokCluster]:
    """The cluster, with its namespace and priority classes, and its pods followed."""
    config = KubeConfig.from_file(kubeconfig).get()
    assert config is not None
    async with (
        AsyncClient(config, ConnectionParams(trust_env=False, timeout=httpx2.Timeout(60))) as admin,
        open_api_server(str(kubeconfig)) as api,
    ):
        cluster = KwokCluster(admin, api)
        await cluster.prepare()
        following = asyncio.create_task(cluster.follow())
        try:
            yield cluster
            if following.done():
                following.result()
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await following
