"""What agents say runs, folded from the rosters of nodes, and which claim each pod belongs to. Times are handed in.

A pod belongs to the claim that its label names, else to the claims of its workload. It runs until a later roster of its
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
class RosterOrder:
    """The place of a roster among those of its node, by the reports of each boot of its agent. The times that an agent
    says do not order them, because its clock may have been ahead."""

    boot_epoch: str
    sequence: int


@dataclass(slots=True)
class _NodePods:
    order: RosterOrder
    pods: Mapping[str, RunningPod]


@dataclass(slots=True)
class RunningPods:
    """The newest roster of each node. Not for two writers."""

    listening_since_s: float
    nodes: dict[str, _NodePods] = field(default_factory=dict)
    lost: dict[str, _NodePods] = field(default_factory=dict)
    """What lost nodes ran: a node that lives again repeats only later what has not changed."""
    last_seen_s: dict[str, float] = field(default_factory=dict)
    """By key, when a pod of it was known to run last."""

    def replace(self, node: str, order: RosterOrder, rostered_s: float, pods: Iterable[Pod]) -> None:
        """Replace what runs on a node. A roster that is older within its boot changes nothing; boots come in order. A
        pod that it leaves out ran until then."""
        before = self.nodes.get(node) or self.lost.get(node)
        if (
            before is not None
            and order.boot_epoch == before.order.boot_epoch
            and order.sequence <= before.order.sequence
        ):
            return
        known = {} if before is None else before.pods
        running = {pod.uid: known.get(pod.uid) or _running(node, pod, rostered_s) for pod in pods}
        ended = () if node not in self.nodes else [pod for uid, pod in known.items() if uid not in running]
        self.lost.pop(node, None)
        self.nodes[node] = _NodePods(order, running)
        self._note_seen((*running.values(), *ended), rostered_s)

    def suspend(self, node: str, until_s: float) -> None:
        """The node is lost: as far as is known, all that it ran ended with its last report."""
        if (lost := self.nodes.pop(node, None)) is not None:
            self.lost[node] = lost
            self._note_seen(lost.pods.values(), until_s)

    def resume(self, node: str) -> None:
        """The node lives again, and runs what it ran, unless a roster has said otherwise since."""
        if (lost := self.lost.pop(node, None)) is not None:
            self.nodes.setdefault(node, lost)

    def remove(self, node: str) -> None:
        """The node is removed, and all that it ran."""
        self.nodes.pop(node, None)
        self.lost.pop(node, None)

    def _note_seen(self, pods: Iterable[RunningPod], at_s: float) -> None:
        for pod in pods:
            self.last_seen_s[pod.key] = max(at_s, self.last_seen_s.get(pod.key, at_s))

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
