"""What is kept of the objects of an API server: slim records, and how each is read from JSON.

A record holds what decisions use. The whole objects of 5,000 pods would take ten times the memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from slackwater.apiserver.json_parts import Json, items_in, object_in
from slackwater.apiserver.node_owners import STATUS_PARTS, owners_of
from slackwater.apiserver.resource_names import LENT_NAMES
from slackwater.model.bounds import MOST_COUNT, MOST_MEMORY_BYTES
from slackwater.model.quantities import Resources, whole_amount

CORDON_TAINT: Final = "slackwater.io/cordoned"
"""Key of the one taint of a node that Slackwater writes."""
REVISION: Final = "deployment.kubernetes.io/revision"
_REVISION_LABELS: Final = ("pod-template-hash", "rollouts-pod-template-hash", "controller-revision-hash")

Labels = tuple[tuple[str, str], ...]


class ApiRecord(Protocol):
    """What all records have. `key` is unique within a kind; `uid` is never reused, unlike a key."""

    @property
    def key(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=ApiRecord)
T_co = TypeVar("T_co", bound=ApiRecord, covariant=True)


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """The controller of an object."""

    group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node. `added_at` is as the server has it, because a write repeats the taints of others."""

    key: str
    value: str
    effect: str
    added_at: str = ""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node. `lent` are the amounts of LENT_NAMES in its status (milli-cores, bytes).

    Each of those names is of one of three owners. `owned`: FIELD_MANAGER has applied it, or the kubelet has written
    over an own name. `foreign`: another manager owns it, and may share it with FIELD_MANAGER; the manager's name is
    empty where the server has noted none. Else it is an alias that only the kubelet has written, and free.

    `residual` are part, name and amount of foreign names in the part of the status that FIELD_MANAGER still owns alone.

    `taints` are all, in the server's order. `others` is what it has beyond these, CPU and memory: `pods`, devices.
    """

    key: str
    uid: str
    version: str
    labels: Labels
    allocatable: Resources
    unschedulable: bool
    lent: tuple[tuple[str, int], ...]
    owned: frozenset[str]
    taints: tuple[Taint, ...] = ()
    foreign: tuple[tuple[str, str], ...] = ()
    residual: tuple[tuple[str, str, int], ...] = ()
    others: tuple[tuple[str, int], ...] = ()

    @property
    def cordon(self) -> Taint | None:
        """The taint that Slackwater has written."""
        return next((taint for taint in self.taints if taint.key == CORDON_TAINT), None)

    def to_withdraw(self, amounts: Collection[str]) -> Mapping[str, Sequence[str]]:
        """By part of the status, the names that leave it where Slackwater writes these amounts."""
        leaving = {
            part: sorted(
                (self.owned - set(amounts))
                | {name for where, name, _ in self.residual if where == part and name not in amounts}
            )
            for part in STATUS_PARTS
        }
        return {part: names for part, names in leaving.items() if names}


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod. `node` is empty until it is bound. `borrowed` are its requests for LENT_NAMES. `deleting`: it was deleted
    or evicted, and its containers may still run."""

    key: str
    uid: str
    version: str
    node: str
    phase: str
    priority: int
    labels: Labels
    owner: OwnerRef | None
    request: Resources
    borrowed: tuple[tuple[str, int], ...]
    deleting: bool = False

    @property
    def occupies(self) -> bool:
        """Whether it holds resources of its node."""
        return bool(self.node) and self.phase not in ("Succeeded", "Failed")

    @property
    def revision(self) -> str:
        """The revision of its template; empty if its controller names none."""
        return next((value for name, value in self.labels if name in _REVISION_LABELS), "")


@dataclass(frozen=True, slots=True)
class ControllerRecord:
    """An object between pods and their workload: a ReplicaSet or a Job. `revision` is the Deployment's."""

    key: str
    uid: str
    version: str
    owner: OwnerRef | None
    revision: str


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """A PodDisruptionBudget. `selector` is its JSON text; empty: it selects no pod. Bounds are as written: a count, a
    percent, or empty. `unready_always`: its unhealthyPodEvictionPolicy is AlwaysAllow."""

    key: str
    uid: str
    version: str
    selector: str
    disruptions_allowed: int
    current_healthy: int
    desired_healthy: int
    expected_pods: int
    min_available: str = ""
    max_unavailable: str = ""
    unready_always: bool = False


@dataclass(frozen=True, slots=True)
class PriorityClassRecord:
    key: str
    uid: str
    version: str
    value: int
    is_default: bool
    preempts: bool


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    key: str
    uid: str
    version: str
    labels: Labels
    terminating: bool


@dataclass(frozen=True, eq=False)
class WatchedKind(Generic[T_co]):
    """A kind that is listed and watched in all namespaces."""

    kind: str
    group: str
    plural: str
    parse: Callable[[Json], T_co]
    version: str = "v1"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Of the collection, without a leading slash."""
        return f"apis/{self.group}/{self.version}/{self.plural}" if self.group else f"api/{self.version}/{self.plural}"


def is_newer(version: str, other: str) -> bool:
    """Whether a resource version is newer than another of the same kind. Kubernetes has promised since 1.35 that they
    compare as integers; of others nothing is known, and False."""
    return version.isdecimal() and other.isdecimal() and int(version) > int(other)


def parse_node(item: Json) -> ClusterNode:
    status = object_in(item, "status")
    allocatable = object_in(status, "allocatable")
    owned, foreign, residual = owners_of(item)
    return ClusterNode(
        *_identity(item),
        labels=_labels(item),
        allocatable=Resources(whole_amount(allocatable.get("cpu"), 1000), whole_amount(allocatable.get("memory"))),
        unschedulable=object_in(item, "spec").get("unschedulable") is True,
        lent=_lent(allocatable),
        owned=owned,
        foreign=foreign,
        residual=residual,
        taints=tuple(
            Taint(*(str(taint.get(name) or "") for name in ("key", "value", "effect", "timeAdded")))
            for taint in items_in(object_in(item, "spec"), "taints")
        ),
        others=tuple(other_amounts(allocatable).items()),
    )


def other_amounts(amounts: Json) -> dict[str, int]:
    """Returns the amounts of resources other than CPU, memory and LENT_NAMES, up to what every counter may be."""
    return {
        str(name): min(whole_amount(amount), MOST_COUNT)
        for name, amount in amounts.items()
        if name not in LENT_NAMES and name not in ("cpu", "memory")
    }


def taints_json(node: ClusterNode, cordon: Taint | None) -> list[dict[str, str]] | None:
    """`spec.taints` of a node with this cordon (None: without) and the taints of others as they are; None for none."""
    taints = [*(taint for taint in node.taints if taint.key != CORDON_TAINT), *(() if cordon is None else (cordon,))]
    fields = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.added_at}
        for taint in taints
    ]
    return [{name: text for name, text in taint.items() if text} for taint in fields] or None


def parse_pod(item: Json) -> PodRecord:
    spec, status = object_in(item, "spec"), object_in(item, "status")
    request, borrowed = _requests(spec, status)
    return PodRecord(
        *_identity(item),
        node=sys.intern(str(spec.get("nodeName") or "")),
        phase=sys.intern(str(status.get("phase") or "")),
        priority=_whole(spec.get("priority")),
        labels=_labels(item),
        owner=_owner(item),
        request=request,
        borrowed=borrowed,
        deleting=bool(object_in(item, "metadata").get("deletionTimestamp")),
    )


def parse_controller(item: Json) -> ControllerRecord:
    revision = str(object_in(object_in(item, "metadata"), "annotations").get(REVISION) or "")
    return ControllerRecord(*_identity(item), owner=_owner(item), revision=revision)


def parse_budget(item: Json) -> BudgetRecord:
    status, spec = object_in(item, "status"), object_in(item, "spec")
    bounds = [
        str(value) if (value := spec.get(name)) is not None else "" for name in ("minAvailable", "maxUnavailable")
    ]
    return BudgetRecord(
        *_identity(item),
        selector=_text_of(spec.get("selector")),
        disruptions_allowed=_whole(status.get("disruptionsAllowed")),
        current_healthy=_whole(status.get("currentHealthy")),
        desired_healthy=_whole(status.get("desiredHealthy")),
        expected_pods=_whole(status.get("expectedPods")),
        min_available=bounds[0],
        max_unavailable=bounds[1],
        unready_always=spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow",
    )


def parse_priority_class(item: Json) -> PriorityClassRecord:
    is_default, preempts = item.get("globalDefault") is True, item.get("preemptionPolicy") != "Never"
    return PriorityClassRecord(*_identity(item), _whole(item.get("value")), is_default, preempts)


def parse_namespace(item: Json) -> NamespaceRecord:
    terminating = object_in(item, "status").get("phase") == "Terminating"
    return NamespaceRecord(*_identity(item), labels=_labels(item), terminating=terminating)


NODES: Final = WatchedKind("Node", "", "nodes", parse_node)
PODS: Final = WatchedKind("Pod", "", "pods", parse_pod)
NAMESPACES: Final = WatchedKind("Namespace", "", "namespaces", parse_namespace)
REPLICA_SETS: Final = WatchedKind("ReplicaSet", "apps", "replicasets", parse_controller)
JOBS: Final = WatchedKind("Job", "batch", "jobs", parse_controller)
BUDGETS: Final = WatchedKind("PodDisruptionBudget", "policy", "poddisruptionbudgets", parse_budget)
PRIORITY_CLASSES: Final = WatchedKind("PriorityClass", "scheduling.k8s.io", "priorityclasses", parse_priority_class)
KINDS: Final[Sequence[WatchedKind[Any]]] = (*(NODES, PODS, REPLICA_SETS, JOBS, BUDGETS, PRIORITY_CLASSES, NAMESPACES),)
"""All kinds that are watched, in the order of start."""


def _identity(item: Json) -> tuple[str, str, str]:
    """Key, uid and version. Raises ValueError without a name."""
    metadata = object_in(item, "metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name:
        raise ValueError("metadata.name is missing")
    key = f"{namespace}/{name}" if namespace else str(name)
    return key, str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _text_of(value: object) -> str:
    return "" if value is None else msgspec.json.encode(value, order="sorted").decode()


def _labels(item: Json) -> Labels:
    """Interned, because the pods of a workload have the same."""
    labels = object_in(object_in(item, "metadata"), "labels")
    return tuple((sys.intern(str(name)), sys.intern(str(value))) for name, value in labels.items())


def _owner(item: Json) -> OwnerRef | None:
    """The owner that manages the object; others only keep it from being collected."""
    for owner in items_in(object_in(item, "metadata"), "ownerReferences"):
        if owner.get("controller") is True:
            group = str(owner.get("apiVersion") or "").rpartition("/")[0]
            names = (group, str(owner.get("kind") or ""), str(owner.get("name") or ""), str(owner.get("uid") or ""))
            return OwnerRef(*(sys.intern(name) for name in names))
    return None


def _lent(amounts: Json) -> tuple[tuple[str, int], ...]:
    return tuple((name, whole_amount(amounts[name])) for name in sorted(LENT_NAMES & amounts.keys()))


def container_states(status: Json) -> dict[str, Json]:
    """What the kubelet says of the containers of a pod, by name."""
    return {
        str(entry.get("name")): entry
        for part in ("initContainerStatuses", "containerStatuses")
        for entry in items_in(status, part)
    }


def is_resize_infeasible(status: Json) -> bool:
    """Returns whether the kubelet has said that the node can never give a pod what its spec says now."""
    conditions = items_in(status, "conditions")
    pending = [condition for condition in conditions if condition.get("type") == "PodResizePending"]
    return bool(pending) and pending[0].get("reason") == "Infeasible"


def held_requests(requests: Mapping[str, int], state: Json, *, infeasible: bool) -> dict[str, int]:
    """What a container, or a pod as a whole, holds of what it requests: while a resize in place is not carried out, the
    largest of what the spec says, what the kubelet has set aside, and what it has given. A spec that is infeasible does
    not count beside them."""
    set_aside, given = object_in(state, "allocatedResources"), object_in(object_in(state, "resources"), "requests")
    held = dict[str, int]()
    for amounts in (_parsed(set_aside), _parsed(given)):
        for name, amount in amounts.items():
            held[name] = max(amount, held.get(name, 0))
    if infeasible:
        return {**requests, **held}
    return {name: max(requests.get(name, 0), held.get(name, 0)) for name in {**requests, **held}}


def _requests(spec: Json, status: Json) -> tuple[Resources, tuple[tuple[str, int], ...]]:
    """The effective request, as the scheduler counts it: the sum of containers and sidecars, or what the largest
    init container needs beside the sidecars that run before it; plus the overhead. What is borrowed is at most what any
    machine has, so that sums over the pods of a node fit into a record: a pod may name its node and ask for anything.

    Source: k8s.io/component-helpers resource.PodRequests. Requests of the whole pod (`spec.resources`) go before.
    """
    states, infeasible = container_states(status), is_resize_infeasible(status)

    def amounts_of(container: Json) -> dict[str, int]:
        state = states.get(str(container.get("name")), {})
        return held_requests(_amounts(object_in(container, "resources")), state, infeasible=infeasible)

    total, peak, sidecars = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in items_in(spec, "initContainers"):
        amounts = amounts_of(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = _sum(sidecars, amounts)
        peak = {name: max(peak.get(name, 0), amounts.get(name, 0)) for name in {*peak, *amounts}}
    for container in items_in(spec, "containers"):
        total = _sum(total, amounts_of(container))
    total = _sum(total, sidecars)
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in {*total, *peak}}
    if whole := _amounts(object_in(spec, "resources")):
        total |= held_requests(whole, status, infeasible=infeasible)
    total = _sum(total, _parsed(object_in(spec, "overhead")))
    borrowed = tuple((name, min(total[name], MOST_MEMORY_BYTES)) for name in sorted(LENT_NAMES & total.keys()))
    return Resources(total.get("cpu", 0), total.get("memory", 0)), borrowed


def _amounts(resources: Json) -> dict[str, int]:
    """Requests, and limits of extended resources without a request, which the API server makes equal."""
    return _parsed({**object_in(resources, "limits"), **object_in(resources, "requests")}) if resources else {}


def _parsed(amounts: Json) -> dict[str, int]:
    return {
        name: whole_amount(amounts[name], 1000 if name == "cpu" else 1)
        for name in amounts
        if name in LENT_NAMES or name in ("cpu", "memory")
    }


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}
