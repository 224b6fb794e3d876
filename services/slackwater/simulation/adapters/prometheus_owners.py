"""The workload of a pod in metrics of kube-state-metrics. Pure.

`kube_pod_info` names the creator of a pod, `kube_replicaset_owner` and `kube_job_owner` what owns that. Where they are
not scraped the name decides: a Deployment adds a hash of its template to the names of its ReplicaSets, a CronJob the
minute that a Job is for. Every other name is whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from slackwater.apiserver.workloads import OF_CRON_JOB
from slackwater.simulation.adapters.prometheus import Labels, Points

Owners = Mapping[tuple[str, str, str], tuple[str, str]]
"""Kind and name of the owner, by kind, namespace and name; ("", "") for an object without one."""
_NO_OWNER: Final = ("", "<none>")
_OWN_NAME: Final = {"ReplicaSet": "replicaset", "Job": "job_name"}
_OF_DEPLOYMENT: Final = re.compile(r"(.+)-[4-9bcdf]{6,10}")
"""A template's hash has up to ten digits in these ten characters (SafeEncodeString of a 32-bit number)."""
_BY_NAME: Final = {"ReplicaSet": ("Deployment", _OF_DEPLOYMENT), "Job": ("CronJob", OF_CRON_JOB)}


def scraped(labels: Labels, name: str) -> str:
    """Returns the exporter's label, even if the scrape renamed it."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def owners_of(found: Mapping[str, Mapping[tuple[tuple[str, str], ...], Points]]) -> Owners:
    """Returns the owners from the answers by kind."""
    owners: dict[tuple[str, str, str], tuple[str, str]] = {}
    for kind, series in found.items():
        for labels in map(dict, series):
            key = (kind, scraped(labels, "namespace"), labels.get(_OWN_NAME[kind], ""))
            owner = (labels.get("owner_kind", ""), labels.get("owner_name", ""))
            owners[key] = ("", "") if set(owner) & set(_NO_OWNER) else owner
    return owners


def workload_of(labels: Labels, owners: Owners) -> str:
    """Returns `NAMESPACE/KIND/NAME` of the topmost owner of a pod that is known; a pod without one is its own."""
    namespace, pod = scraped(labels, "namespace"), scraped(labels, "pod")
    kind, name = labels.get("created_by_kind", ""), labels.get("created_by_name", "")
    if name in _NO_OWNER:
        kind, name = "Pod", pod
    elif kind == "Node":  # a static pod, which is its own workload on every node
        kind, name = "Pod", pod.removesuffix(f"-{name}")
    elif kind in _BY_NAME:
        owner = owners.get((kind, namespace, name))
        kind, name = _by_name(kind, name) if owner is None else owner if owner[0] else (kind, name)
    return f"{namespace}/{kind}/{name}"


def _by_name(kind: str, name: str) -> tuple[str, str]:
    owner_kind, pattern = _BY_NAME[kind]
    match = pattern.fullmatch(name)
    return (kind, name) if match is None else (owner_kind, match[1])
