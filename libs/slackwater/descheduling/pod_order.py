"""Which pod of an overloaded node goes first. Source: koordinator's pkg/descheduler/utils/sorter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.descheduling.evictability import cost_of, eviction_cost
from slackwater.descheduling.placement import Amounts, KubeQos, LoadSource, PlacedPod
from slackwater.model.tiers import QoSClass, Tier

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_TIER_RANK = {Tier.FREE: 1, Tier.BATCH: 2, Tier.MID: 3, Tier.PROD: 4, None: 5}
_QOS_RANK = {QoSClass.BE: 1, QoSClass.LS: 2, QoSClass.LSR: 3, QoSClass.LSE: 4, QoSClass.SYSTEM: 4}
_QOS_BY_KUBE = {KubeQos.BEST_EFFORT: QoSClass.BE, KubeQos.BURSTABLE: QoSClass.LS, KubeQos.GUARANTEED: QoSClass.LSR}


def eviction_rank(pod: PlacedPod) -> tuple[int, int, int, int, int, int]:
    """Returns the six keys that do not depend on load, lowest first: tier, priority, Kubernetes' QoS, QoS class,
    deletion cost, eviction cost."""
    qos = pod.qos or _QOS_BY_KUBE[pod.kube_qos]
    deletion_cost = eviction_cost(pod.annotations.get(DELETION_COST, ""))
    return (_TIER_RANK[pod.tier], pod.priority or 0, pod.kube_qos, _QOS_RANK[qos], deletion_cost, cost_of(pod))


def relief(load: Amounts | None, excess: Amounts, weights: Mapping[str, float]) -> float:
    """Returns how well a pod's load cures an excess, highest best: near 2 for the smallest pod that cures it alone, its
    share of the excess below that; -1 where its load is not known."""
    if load is None:
        return -1.0
    total = sum(weights.get(resource, 1) for resource in excess)
    if total <= 0:
        return 0.0
    score = 0.0
    for resource, amount in excess.items():
        ratio = load.get(resource, 0) / amount
        score += weights.get(resource, 1) * (ratio if ratio < 1 else 1 / ratio + 1)
    return score / total


def in_eviction_order(
    pods: Sequence[PlacedPod], excess: Amounts, weights: Mapping[str, float], source: LoadSource = LoadSource.MEASURED
) -> list[PlacedPod]:
    """Returns the pods, first to be moved first; of equals the newer one, then by UID."""
    return sorted(
        pods,
        key=lambda pod: (
            eviction_rank(pod),
            -relief(pod.load(source), excess, weights),
            -pod.created_s,
            pod.uid,
        ),
    )
