"""What agents report as running, folded by node, and which claim each pod belongs to. Times are handed in.

A pod belongs to the claim that its label names, else to the claims of its workload. It runs until a later report of its
node leaves it out, or its node is lost or removed: a node that is silent for a while still runs what it ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.reconciliation import RunningWorkload
from slackwater.fairshare.tree import Amounts, added
from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

CLAIM_LABEL: Final = "slackwater.io/claim"
SYSTEM_NAMESPACES: Final = frozenset({"kube-system"})
FORGET_S: Final = 3600.0
"""How long it is remembered when something was seen last."""


@record(frozen=True, slots=True)
class RunningPod:
    """One pod. `key` is that of the claims it may belong to; `amounts` are what it requests, in the ledger's units."""

    uid: str
    name: str
    node: str
    key: str
    workload: str
    amounts: Amounts
    is_system: bool
    first_seen_s: float


@record(frozen=True, slots=True)
class ReportOrder:
    """The place of a report among those of its node: from 1 in each boot of its agent. The times that an agent says do
    not order them, because its clock may have been ahead."""

    boot_epoch: str
    sequence: int


@dataclass(slots=True)
class _NodePods:
    order: ReportOrder
    pods: Mapping[str, RunningPod]


@dataclass(slots=True)
class RunningPods:
    """The newest report of each node. Not for two writers."""

    listening_since_s: float
    nodes: dict[str, _NodePods] = field(default_factory=dict)
    last_seen_s: dict[str, float] = field(default_factory=dict)
    """By key, the sample that showed a pod of it last."""

    def report(self, node: str, order: ReportOrder, sampled_s: float, reported: Iterable[Pod]) -> None:
        """Replace what runs on a node. A report that is older within its boot changes nothing; boots come in order."""
        before = self.nodes.get(node)
        if (
            before is not None
            and order.boot_epoch == before.order.boot_epoch
            and order.sequence <= before.order.sequence
        ):
            return
        pods_before = {} if before is None else before.pods
        pods = {pod.uid: pods_before.get(pod.uid) or _running(node, pod, sampled_s) for pod in reported}
        self.nodes[node] = _NodePods(order, pods)
        for pod in pods.values():
            self.last_seen_s[pod.key] = max(sampled_s, self.last_seen_s.get(pod.key, sampled_s))

    def remove(self, node: str) -> None:
        """The node is lost or removed, and all that it ran."""
        self.nodes.pop(node, None)

    def discard_before(self, now_s: float) -> None:
        """Drop what was seen last long ago."""
        self.last_seen_s = {key: at for key, at in self.last_seen_s.items() if now_s - at < FORGET_S}

    def all(self) -> Iterator[RunningPod]:
        """Yields every pod."""
        for node in self.nodes.values():
            yield from node.pods.values()

    def by_key(self) -> Mapping[str, list[RunningPod]]:
        """Returns the pods by key."""
        pods_by_key: dict[str, list[RunningPod]] = {}
        for pod in self.all():
            pods_by_key.setdefault(pod.key, []).append(pod)
        return pods_by_key

    def key_of(self, claim: QuotaClaim) -> str:
        """Returns the key under which the pods of a claim are found: its own if a pod ever named it."""
        own = claim_key(claim.id)
        return own if own in self.last_seen_s or not claim.workload else claim.workload


def claim_key(claim: str) -> str:
    """Returns the key of pods that name a claim. No workload has a colon followed by a blank."""
    return f"claim: {claim}"


def workload_of(key: str, pods: Iterable[RunningPod], now_s: float) -> RunningWorkload:
    """Returns what runs under one key, all nodes together."""
    running = list(pods)
    since_s = min((pod.first_seen_s for pod in running), default=now_s)
    return RunningWorkload(key, added(*(pod.amounts for pod in running)), since_s)


def system_amounts(pods: Iterable[RunningPod]) -> dict[str, int]:
    """Returns what pods of the system itself request: they come off what a pool has before anything is shared."""
    return added(*(pod.amounts for pod in pods if pod.is_system))


def _running(node: str, pod: Pod, seen_s: float) -> RunningPod:
    named = pod.labels.get(CLAIM_LABEL)
    return RunningPod(
        uid=pod.uid,
        name=pod.name,
        node=node,
        key=claim_key(named) if named else pod.workload,
        workload=pod.workload,
        amounts=_amounts(pod),
        is_system=pod.qos is QoSClass.SYSTEM or pod.namespace in SYSTEM_NAMESPACES,
        first_seen_s=seen_s,
    )


def _amounts(pod: Pod) -> dict[str, int]:
    prefix = f"{pod.tier.value}-" if pod.tier in (Tier.MID, Tier.BATCH) else ""
    amounts = {f"{prefix}cpu": pod.request.cpu_milli, f"{prefix}memory": pod.request.memory_bytes}
    return {} if pod.tier is Tier.FREE else {name: amount for name, amount in amounts.items() if amount > 0}
