"""What an agent keeps of the pods of its node: identity, containers as they run, and what they request and may use.

`records.PodRecord` has what the adapter of a whole cluster keeps of 5,000 pods; this has more of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from slackwater.apiserver.json_parts import Json, items_in, object_in
from slackwater.apiserver.pod_details import rules_of, status_of
from slackwater.apiserver.records import (
    PodRecord,
    WatchedKind,
    container_states,
    held_requests,
    is_resize_infeasible,
    parse_pod,
)
from slackwater.apiserver.resource_names import LENT_NAMES
from slackwater.model.placement_rules import PlacementRules
from slackwater.model.pods import PodStatus
from slackwater.model.quantities import whole_amount

CONFIG_HASH: Final = "kubernetes.io/config.hash"
"""Annotation of a static pod's mirror: the uid under which the kubelet runs it."""
CPU, MEMORY = "cpu", "memory"
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """A container of a pod. Amounts are milli-cores and bytes by resource name: `cpu`, `memory` and LENT_NAMES.

    They are what the container holds: while a resize in place is not carried out, the larger of before and after, and
    what it had if the resize is infeasible.

    `id` is that of the container that runs now, without the name of its `runtime`; empty while there is none.
    `in_force` is the JSON of what the kubelet says that it gave the container; empty if it says nothing. `init`: it
    runs before the others, and ends, unless it is a `sidecar`.
    """

    name: str
    runtime: str
    id: str
    requests: Amounts
    limits: Amounts
    in_force: str = ""
    init: bool = False
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod with its containers. `uid` is the API server's; `kubelet_uid` the one that its cgroups are named by.
    `started_at` is the kubelet's time of acceptance, or of creation before that, as RFC 3339."""

    record: PodRecord
    kubelet_uid: str
    qos_class: str
    started_at: str
    annotations: tuple[tuple[str, str], ...]
    containers: tuple[ContainerRecord, ...]
    status: PodStatus | None = None
    rules: PlacementRules | None = None

    @property
    def key(self) -> str:
        return self.record.key

    @property
    def uid(self) -> str:
        return self.record.uid

    @property
    def version(self) -> str:
        return self.record.version


def parse_node_pod(item: Json) -> NodePod:
    """Raises ValueError without a name."""
    metadata, status = object_in(item, "metadata"), object_in(item, "status")
    record = parse_pod(item)
    annotations = {str(name): str(value) for name, value in object_in(metadata, "annotations").items()}
    return NodePod(
        record,
        kubelet_uid=annotations.get(CONFIG_HASH, record.uid),
        qos_class=str(status.get("qosClass") or ""),
        started_at=str(status.get("startTime") or metadata.get("creationTimestamp") or ""),
        annotations=tuple(annotations.items()),
        containers=tuple(_containers(object_in(item, "spec"), status)),
        status=status_of(item),
        rules=rules_of(item),
    )


NODE_PODS: Final = WatchedKind("Pod", "", "pods", parse_node_pod)


def effective(containers: Sequence[ContainerRecord], limits: bool = False) -> dict[str, int]:
    """What a pod requests (or may use) by resource: its containers and sidecars together, or what the largest init
    container needs beside the sidecars before it. With `limits`, a resource that a container does not limit is left
    out, because nothing then bounds the pod."""
    total, peak, sidecars = dict[str, int](), dict[str, int](), dict[str, int]()
    for container in containers:
        amounts = container.limits if limits else container.requests
        if not container.init:
            total = _sum(total, amounts)
        elif container.sidecar:
            sidecars = _sum(sidecars, amounts)
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, _sum(sidecars, amounts))
    found = _most(_sum(total, sidecars), peak)
    if not limits:
        return found
    return {name: amount for name, amount in found.items() if all(name in container.limits for container in containers)}


def _containers(spec: Json, status: Json) -> Iterator[ContainerRecord]:
    states, infeasible = container_states(status), is_resize_infeasible(status)
    for part in ("initContainers", "containers"):
        for container in items_in(spec, part):
            name = str(container.get("name") or "")
            state = states.get(name, {})
            runtime, _, container_id = str(state.get("containerID") or "").partition("://")
            resources = object_in(container, "resources")
            requests, limits = _amounts(object_in(resources, "requests")), _amounts(object_in(resources, "limits"))
            in_force = state.get("resources")
            given = _amounts(object_in(object_in(state, "resources"), "limits"))
            yield ContainerRecord(
                name,
                runtime,
                container_id if "running" in object_in(state, "state") else "",
                held_requests({**limits, **requests}, state, infeasible=infeasible),
                {name: max(0 if infeasible and name in given else limits[name], given.get(name, 0)) for name in limits},
                msgspec.json.encode(in_force, order="sorted").decode() if in_force else "",
                init=part == "initContainers",
                sidecar=container.get("restartPolicy") == "Always",
            )


def _amounts(amounts: Json) -> dict[str, int]:
    return {
        name: whole_amount(amounts[name], 1000 if name == CPU else 1)
        for name in amounts
        if name in LENT_NAMES or name in (CPU, MEMORY)
    }


def _sum(amounts: Amounts, other: Amounts) -> dict[str, int]:
    return {name: amounts.get(name, 0) + other.get(name, 0) for name in {*amounts, *other}}


def _most(amounts: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(amounts.get(name, 0), other.get(name, 0)) for name in {*amounts, *other}}
