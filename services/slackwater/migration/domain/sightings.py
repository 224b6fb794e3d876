"""What is seen of the pods that move: a part of the cluster's view, and answers of agents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

import numpy as np

from slackwater.cluster.view import NONE, ClusterView, LivenessCode, Source
from slackwater.migration.domain.disruption_budgets import BudgetsByNamespace
from slackwater.migration.domain.stored_jobs import EvictionAnswer, GrantAnswer, MovedPod, StoredJob
from slackwater.model.nodes import NodeFacts, PodDetail
from slackwater.model.pods import FAILED, PENDING, Pod
from slackwater.model.records import record
from slackwater.model.start_states import StartState
from slackwater.model.tiers import Tier
from slackwater.model.workload_labels import TEMPLATE_LABEL

STALE_S: Final = 150.0
"""A node whose last roster is older does not answer: whether its pods run is not known. Agents repeat rosters each
minute. A node that sends no reports is lost before, if anything tells so."""
_TIER_PREFIX: Final = {Tier.BATCH: "batch-", Tier.MID: "mid-"}


@record(frozen=True, slots=True)
class SeenPod:
    """A pod in the last roster of its node."""

    pod: Pod
    node: str
    peak: Mapping[str, int] | None
    reported_s: float
    is_fresh: bool
    """Whether the node still answers."""
    is_ready: bool = True
    """True as well where the agent of its node does not report readiness."""

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with a failure, and is listed still."""
        return self.pod.status is not None and self.pod.status.phase == FAILED

    @property
    def is_pending(self) -> bool:
        """Whether none of its containers has begun yet."""
        return self.pod.status is not None and self.pod.status.phase == PENDING

    @property
    def unready_because(self) -> str:
        """What its node says of a pod that is not ready."""
        return "" if self.pod.status is None else self.pod.status.reason


@record(frozen=True, slots=True)
class SeenStart:
    """What an agent answered to a start. `received_s`: by the server's clock, when it was first in this state."""

    state: StartState
    pod_uid: str
    detail: str
    received_s: float


def offers_nothing(node: str, workload: str) -> str:
    """Returns no digest: what nodes offer where none has workload files."""
    return ""


@record(frozen=True, slots=True)
class SeenCluster:
    """Pods that jobs name, those of their workloads, and when each node said last what it runs."""

    pods: Mapping[str, SeenPod] = field(default_factory=dict)
    """By uid; of those that have failed only pods that jobs name."""
    by_name: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Uid by namespace and name; of several the last started."""
    by_workload: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Uids, sorted."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    reported_s: Mapping[str, float] = field(default_factory=dict)
    """By node, when its last roster was sampled; by the node's clock."""
    fresh: Collection[str] = frozenset()
    """Nodes that answer."""
    pools: Mapping[str, str] = field(default_factory=dict)
    evictions: Mapping[str, EvictionAnswer] = field(default_factory=dict)
    """By key of the answer."""
    grants: Mapping[str, GrantAnswer] = field(default_factory=dict)
    """By id of the request."""
    budgets: BudgetsByNamespace = field(default_factory=dict)
    """Disruption budgets of the cluster."""
    observed: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """By node: the generation of our document that its agent has carried out last, and when."""
    starts: Mapping[str, SeenStart] = field(default_factory=dict)
    """By key of the answer."""
    offers: Callable[[str, str], str] = offers_nothing
    """The digest of the file that a node has of a workload; empty: none that may be moved to it."""


def tier_resource(resource: str, tier: Tier) -> str:
    """Returns the resource that a pod of a tier requests: batch and mid have a CPU and a memory of their own."""
    return _TIER_PREFIX.get(tier, "") + resource


def requests_of(pod: Pod) -> dict[str, int]:
    """Returns what a pod requests, by resource."""
    amounts = {"cpu": pod.request.cpu_milli, "memory": pod.request.memory_bytes}
    return {tier_resource(name, pod.tier): amount for name, amount in amounts.items() if amount > 0}


def moved_pod(seen: SeenPod) -> MovedPod:
    """Returns a pod as a job keeps it."""
    pod = seen.pod
    return MovedPod(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        workload=pod.workload,
        tier=pod.tier,
        qos=pod.qos,
        priority=pod.priority,
        requests=requests_of(pod),
        peak=seen.peak,
        reported_s=seen.reported_s,
        digest=pod.labels.get(TEMPLATE_LABEL, ""),
        labels=pod.labels,
        rules=pod.rules,
        failed=seen.has_failed,
    )


def seen_of(
    view: ClusterView, uids: Collection[str], names: Collection[tuple[str, str]], workloads: Collection[str]
) -> SeenCluster:
    """Returns what a view shows of these pods, of these workloads and of those of the pods."""
    nodes, pods = view.nodes, view.pods
    reported = nodes.at[:, Source.ROSTERED] / 1e6
    answers = nodes.exists & (nodes.age_seconds[:, Source.ROSTERED] <= STALE_S) & (nodes.liveness != LivenessCode.LOST)
    named = _rows_named(view, uids, names)
    workloads = {*workloads, *(pods.workloads[code] for code in pods.workload[named] if code != NONE)} - {""}
    rows = sorted({*named, *_rows_of(view, workloads)})
    found: dict[str, SeenPod] = {}
    by_name: dict[tuple[str, str], str] = {}
    by_workload: dict[str, list[str]] = {}
    for row in rows:
        pod, node = pods.described[row], int(pods.node[row])
        if pod is None or node == NONE:
            continue
        peak = None
        if pods.peak.known[row].all():
            peak = {"cpu": int(pods.peak.value[row, 0]), "memory": int(pods.peak.value[row, 1])}
        found[pod.uid] = SeenPod(
            pod, nodes.names[node], peak, float(reported[node]), bool(answers[node]), _is_ready(pod, nodes.facts[node])
        )
        key = (pod.namespace, pod.name)
        if key not in by_name or found[by_name[key]].pod.started_at <= pod.started_at:
            by_name[key] = pod.uid
        by_workload.setdefault(pod.workload, []).append(pod.uid)
    for pod, node in _failed_pods(view, uids, names):
        found.setdefault(
            pod.uid, SeenPod(pod, nodes.names[node], {}, float(reported[node]), bool(answers[node]), False)
        )
        by_name.setdefault((pod.namespace, pod.name), pod.uid)
    counts = np.bincount(pods.workload[pods.exists & (pods.workload != NONE)], minlength=len(pods.workloads))
    return SeenCluster(
        pods=found,
        by_name=by_name,
        by_workload={workload: sorted(members) for workload, members in by_workload.items()},
        replicas={name: int(counts[code]) for code, name in enumerate(pods.workloads) if name in workloads},
        reported_s={name: float(reported[row]) for name, row in nodes.rows.items() if reported[row] > 0},
        fresh=frozenset(name for name, row in nodes.rows.items() if answers[row]),
        pools={name: nodes.pools[nodes.pool[row]] for name, row in nodes.rows.items() if nodes.pool[row] != NONE},
    )


def wanted_of(jobs: Collection[StoredJob]) -> tuple[set[str], set[str]]:
    """Returns the uids and workloads that live jobs concern."""
    live = [stored for stored in jobs if stored.is_live]
    return {stored.job.pod for stored in live}, {stored.pod.workload for stored in live if stored.pod.workload}


def unready_of(seen: SeenCluster, workload: str) -> frozenset[str]:
    """Returns the uids of a workload's pods that are not ready, as far as agents report it, or are being started."""
    starting = {start.pod_uid for start in seen.starts.values() if start.state is StartState.STARTING}
    uids = seen.by_workload.get(workload, ())
    return frozenset(uid for uid in uids if uid in starting or not seen.pods[uid].is_ready)


def _is_ready(pod: Pod, facts: NodeFacts | None) -> bool:
    if pod.status is None or facts is None or not facts.knows(PodDetail.READINESS):
        return True
    return pod.status.ready and not pod.status.terminating


def _failed_pods(
    view: ClusterView, uids: Collection[str], names: Collection[tuple[str, str]]
) -> Iterator[tuple[Pod, int]]:
    for node, failed in enumerate(view.nodes.failed):
        for pod in failed:
            if pod.uid in uids or (pod.namespace, pod.name) in names:
                yield pod, node


def _rows_named(view: ClusterView, uids: Collection[str], names: Collection[tuple[str, str]]) -> list[int]:
    pods = view.pods
    rows = {row for row, uid in enumerate(pods.uids) if uid in uids and pods.exists[row]} if uids else set[int]()
    if names:
        for row in np.flatnonzero(pods.exists).tolist():
            pod = pods.described[row]
            if pod is not None and (pod.namespace, pod.name) in names:
                rows.add(row)
    return sorted(rows)


def _rows_of(view: ClusterView, workloads: Collection[str]) -> list[int]:
    pods = view.pods
    codes = [code for code, name in enumerate(pods.workloads) if name and name in workloads]
    found: list[int] = np.flatnonzero(pods.exists & np.isin(pods.workload, codes)).tolist()
    return found
