"""The workload of a pod: its topmost owner of a kind that users know. Pure.

A Deployment owns ReplicaSets, which own pods; a CronJob owns Jobs. So only those two kinds are read between a pod and
its workload: the reference in them names the Deployment or CronJob. What owns a Deployment in turn, an operator's own
resource, is not followed, because prediction keeps models per Deployment. Owners of unknown kinds are workloads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slackwater.apiserver.records import ControllerRecord, OwnerRef, PodRecord

INTERMEDIATE: Final[Mapping[tuple[str, str], str]] = {("apps", "ReplicaSet"): "replicasets", ("batch", "Job"): "jobs"}
"""Kinds between pods and workloads, with their plural."""
_TEMPLATE_HASHES: Final[Mapping[str, str]] = {
    "pod-template-hash": "Deployment",
    "rollouts-pod-template-hash": "Rollout",
}
"""The kind of what names its ReplicaSets by the hash of their template, by the label that pods carry it in. A Rollout
(argoproj.io) is the field's progressive Deployment."""
OF_CRON_JOB: Final = re.compile(r"(.+)-(?:(?:2[6-9]|3[0-9])[0-9]{6}|1[5-9][0-9]{8})")
"""A CronJob names its Jobs by the time that they are for: in minutes since 1970 (of 2019 to 2046), before Kubernetes
1.21 in seconds. A date, as in `report-20261130`, is a part of a Job's own name."""


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


def workload_by_names(pod: PodRecord) -> str:
    """The key that `workload_of` finds, without reading the objects between: a Deployment names its ReplicaSets by the
    hash that their pods carry, a CronJob its Jobs by the time. For readers that may read pods only; a Job that was
    created by hand with such a name is taken for a CronJob's. A static pod is its own workload on every node."""
    namespace, _, name = pod.key.partition("/")
    owner = pod.owner
    if owner is None:
        return f"{namespace}/Pod/{name}"
    if owner.kind == "Node":
        return f"{namespace}/Pod/{name.removesuffix(f'-{owner.name}')}"
    if (owner.group, owner.kind) == ("apps", "ReplicaSet"):
        for label, kind in _TEMPLATE_HASHES.items():
            suffix = f"-{dict(pod.labels).get(label, '')}"
            if len(suffix) > 1 and owner.name.endswith(suffix):
                return f"{namespace}/{kind}/{owner.name.removesuffix(suffix)}"
    if (owner.group, owner.kind) == ("batch", "Job") and (match := OF_CRON_JOB.fullmatch(owner.name)):
        return f"{namespace}/CronJob/{match[1]}"
    return _key(namespace, owner)
