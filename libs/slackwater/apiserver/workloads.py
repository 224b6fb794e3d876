"""The workload of a pod: its topmost owner of a kind that users know. Pure.

A Deployment owns ReplicaSets, which own pods; a CronJob owns Jobs. So only those two kinds are read between a pod and
its workload: the reference in them names the Deployment or CronJob. What owns a Deployment in turn, an operator's own
resource, is not followed, because prediction keeps models per Deployment. Owners of unknown kinds are workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.apiserver.records import ControllerRecord, OwnerRef, PodRecord

INTERMEDIATE: Final[Mapping[tuple[str, str], str]] = {("apps", "ReplicaSet"): "replicasets", ("batch", "Job"): "jobs"}
"""Kinds between pods and workloads, with their plural."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`key` is `NAMESPACE/KIND/NAME` and survives the replacement of pods and rollouts; `revision` changes with a
    rollout. `resolved` is False while an owner is not known yet: the key may change then."""

    key: str
    revision: str
    resolved: bool = True


Controllers = Mapping[str, Mapping[str, ControllerRecord]]
"""Objects between pods and workloads, by plural and key."""


def workload_of(pod: PodRecord, controllers: Controllers) -> Workload:
    """The workload of a pod. A pod without a controller is its own workload."""
    namespace, _, name = pod.key.partition("/")
    owner = pod.owner
    if owner is None:
        return Workload(f"{namespace}/Pod/{name}", "")
    plural = INTERMEDIATE.get((owner.group, owner.kind))
    if plural is None:
        return Workload(_key(namespace, owner), pod.revision)
    record = controllers[plural].get(f"{namespace}/{owner.name}")
    if record is None or record.uid != owner.uid:
        return Workload(_key(namespace, owner), pod.revision, resolved=False)
    if record.owner is None:
        return Workload(_key(namespace, owner), record.revision or pod.revision)
    return Workload(_key(namespace, record.owner), record.revision or pod.revision or owner.name)


def _key(namespace: str, owner: OwnerRef) -> str:
    return f"{namespace}/{owner.kind}/{owner.name}"
