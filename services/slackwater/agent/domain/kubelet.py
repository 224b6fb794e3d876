"""What a kubelet's pods mean to the agent: their tier, what they borrow, and which files isolate them by it.

The kubelet knows nothing of lent resources. It runs a pod that requests nothing else as BestEffort: with the smallest
weight and without limits. So the agent gives such a pod, and each of its containers, what it has borrowed.
Formulas: koordlet, pkg/koordlet/runtimehooks/hooks/batchresource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from slackwater.agent.domain.weights import shares_of_request
from slackwater.apiserver.node_pods import CPU, MEMORY, Amounts, ContainerRecord, NodePod, effective
from slackwater.apiserver.resource_names import ALIAS_DOMAIN, OWN_DOMAIN
from slackwater.apiserver.workloads import workload_by_names
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import LABEL_QOS, LABEL_TIER, QoSClass, Tier, default_qos, tier_named, tier_of_priority
from slackwater.waterline.facts import eviction_marks as marks

LENDING_TIERS = (Tier.BATCH, Tier.MID)
BEST_EFFORT = "BestEffort"
EVICTION_MARKS = (
    "slackwater.io/eviction-cost",
    "scheduling.koordinator.sh/eviction-cost",
    "controller.kubernetes.io/pod-deletion-cost",
    "slackwater.io/do-not-disrupt",
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "slackwater.io/evict",
    "descheduler.alpha.kubernetes.io/evict",
)
"""What descheduling reads; a test compares it with slackwater.descheduling, which an agent does not load."""
_FROM_ANNOTATIONS = (
    *(*marks.POLICIES, *marks.PRIORITY, *marks.ENABLED, *marks.LABEL_PRIORITY, *marks.SOURCE),
    *EVICTION_MARKS,
)
"""What planners read from labels and users of Kubernetes write as annotations."""
_CLASSES = frozenset(map(str, QoSClass))
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ContainerShare:
    """What one container has borrowed; None: the file stays as the runtime wrote it."""

    shares: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class PodShare:
    """What a pod has borrowed. `cpu_milli` and `memory_bytes` are limits; None: a container has none, so the pod has
    none."""

    shares: int
    cpu_milli: int | None
    memory_bytes: int | None
    containers: Mapping[str, ContainerShare]


@dataclass(frozen=True, slots=True)
class KubeletView:
    """The pods of a kubelet, by uid. `revision` changes with any of it.

    `shares` has the pods that borrow; of no other pod a weight or limit is written on its own account. `limited` are
    containers that the kubelet has given a CPU limit. `in_force` is what the kubelet says that it gave each container.
    `cgroups` are the pods' cgroups. `is_v1`: files are those of cgroup v1.
    """

    revision: int
    is_v1: bool
    shares: Mapping[str, PodShare] = field(default_factory=dict)
    limited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    in_force: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cgroups: Mapping[str, str] = field(default_factory=dict)


def pod_of(pod: NodePod, own_uid: str | None = None) -> Pod:
    """The pod as reports and planners have it. Its request is what the scheduler counted, of lent resources too.
    `own_uid`: the pod that the agent itself runs in, which is marked."""
    record = pod.record
    namespace, _, name = record.key.partition("/")
    tier = tier_of(pod)
    return Pod(
        uid=record.uid,
        name=name,
        namespace=namespace,
        workload=workload_by_names(record),
        tier=tier,
        qos=qos_of(pod, tier),
        priority=record.priority,
        request=request_of(pod),
        started_at=_moment(pod.started_at),
        labels=_labels(pod, own_uid),
        status=pod.status,
        rules=pod.rules,
    )


def tier_of(pod: NodePod) -> Tier:
    """By the label, then the priority, then the resources that it borrows, then its classes. As the field has it, a
    pod without any of those is batch where Kubernetes gives it nothing (BestEffort), and else prod."""
    labels = dict(pod.record.labels)
    if (named := tier_named(marks.first_of(labels, LABEL_TIER))) is not None:
        return named
    if (tier := tier_of_priority(pod.record.priority)) is not None:
        return tier
    if pod.record.priority >= marks.SYSTEM_CRITICAL:
        return Tier.PROD
    borrowed = {name for name, _ in pod.record.borrowed}
    for tier in LENDING_TIERS:
        if borrowed & {f"{domain}/{tier}-{part}" for domain in (OWN_DOMAIN, ALIAS_DOMAIN) for part in (CPU, MEMORY)}:
            return tier
    qos = marks.first_of(labels, LABEL_QOS)
    if qos in _CLASSES:
        return Tier.BATCH if qos == QoSClass.BE else Tier.PROD
    return Tier.BATCH if pod.qos_class == BEST_EFFORT else Tier.PROD


def qos_of(pod: NodePod, tier: Tier) -> QoSClass:
    """By the label; system-critical pods are SYSTEM, others have the class of their tier."""
    named = marks.first_of(dict(pod.record.labels), LABEL_QOS)
    if named in _CLASSES:
        return QoSClass(named)
    return QoSClass.SYSTEM if pod.record.priority >= marks.SYSTEM_CRITICAL else default_qos(tier)


def request_of(pod: NodePod) -> Resources:
    """CPU and memory that the pod was promised, by the kubelet or by those that lend. Of a resource under both names,
    own and alias, the larger counts."""
    lent = dict(pod.record.borrowed)
    return Resources(
        pod.record.request.cpu_milli + (_lent(lent, CPU) or 0),
        pod.record.request.memory_bytes + (_lent(lent, MEMORY) or 0),
    )


def share_of(pod: NodePod, limits_cpu: bool = True) -> PodShare | None:
    """What isolates a pod by what it has borrowed; None for one that has borrowed nothing. Without `limits_cpu` its
    weight alone bounds its CPU."""
    if not pod.record.borrowed:
        return None
    requests, limits = effective(pod.containers), effective(pod.containers, limits=True)
    containers = {
        container.name: share for container in pod.containers if (share := _container_share(container)) is not None
    }
    cpu_milli = _lent(limits, CPU) if limits_cpu else None
    shares = shares_of_request(requests.get(CPU, 0) + (_lent(requests, CPU) or 0))
    return PodShare(shares, cpu_milli or None, _lent(limits, MEMORY) or None, containers)


def limited_containers(pod: NodePod) -> tuple[str, ...]:
    """Containers with a CPU limit of the kubelet's own."""
    return tuple(container.name for container in pod.containers if container.limits.get(CPU))


def in_force(pod: NodePod) -> Mapping[str, str]:
    """What the kubelet says that it gave each container."""
    return {container.name: container.in_force for container in pod.containers if container.in_force}


def resized(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether the kubelet has given a container other resources. What it says of one for the first time is no
    change."""
    return any(before[name] != after[name] for name in before.keys() & after.keys())


def _container_share(container: ContainerRecord) -> ContainerShare | None:
    cpu, memory = _lent(container.requests, CPU), _lent(container.limits, MEMORY)
    if cpu is None and memory is None:
        return None
    return ContainerShare(shares_of_request(container.requests.get(CPU, 0) + (cpu or 0)), memory or None)


def _lent(amounts: Amounts, part: str) -> int | None:
    """The lent CPU (milli-cores) or memory (bytes) of all tiers; None if there is none."""
    by_tier = [
        [amounts[name] for domain in (OWN_DOMAIN, ALIAS_DOMAIN) if (name := f"{domain}/{tier}-{part}") in amounts]
        for tier in LENDING_TIERS
    ]
    found = [max(amounts) for amounts in by_tier if amounts]
    return sum(found) if found else None


def _labels(pod: NodePod, own_uid: str | None) -> dict[str, str]:
    annotations = dict(pod.annotations)
    labels = {name: annotations[name] for name in _FROM_ANNOTATIONS if name in annotations} | dict(pod.record.labels)
    labels = {name: value for name, value in labels.items() if name not in marks.PROTECTED}
    return labels | ({marks.PROTECTED[0]: marks.AGENT} if pod.uid == own_uid else {})


def _moment(text: str) -> datetime:
    """A time as the API server writes it; long ago if it is none, so that nothing is taken for new."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _LONG_AGO
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
