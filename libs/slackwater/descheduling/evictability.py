"""Which pods are never proposed for a move, and the first reason why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from slackwater.descheduling.placement import PlacedPod
from slackwater.model.records import record
from slackwater.podmigration.limits import SkipGate

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
EVICTION_COSTS = ("slackwater.io/eviction-cost", "scheduling.koordinator.sh/eviction-cost")
NEVER_COST = 2**31 - 1
DO_NOT_DISRUPT = ("slackwater.io/do-not-disrupt", "karpenter.sh/do-not-disrupt")
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
EVICT = ("slackwater.io/evict", "descheduler.alpha.kubernetes.io/evict")
"""Lifts the protections that settings can lift, for this pod."""
_COST = re.compile(r"0|-?[1-9][0-9]{0,9}")


class ProtectionReason(StrEnum):
    """Why a pod is not proposed."""

    TERMINATING = "terminating"
    MIRROR = "mirror"
    STATIC = "static"
    DAEMON_SET = "daemon_set"
    EVICTION_COST = "eviction_cost"
    DO_NOT_DISRUPT = "do_not_disrupt"
    NOT_SAFE_TO_EVICT = "not_safe_to_evict"
    NAMESPACE = "namespace"
    BARE_POD = "bare_pod"
    SYSTEM_CRITICAL = "system_critical"
    PRIORITY_THRESHOLD = "priority_threshold"
    LOCAL_STORAGE = "local_storage"
    PVC = "pvc"
    LABEL_SELECTOR = "label_selector"
    MOVE_FAILED = "move_failed"
    """Its last move was refused, or given up, a short while ago."""
    UNREAD_RULES = "unread_rules"
    """It has a hard rule of placement that agents do not report, so no target is known to be allowed."""


@record(frozen=True, slots=True)
class EvictorSettings:
    """What may be proposed beyond the default. Names and defaults as in the field."""

    evict_all_bare_pods: bool = False
    evict_failed_bare_pods: bool = False
    evict_system_critical: bool = False
    """Lifts the priority threshold too."""
    evict_local_storage: bool = False
    ignore_pvc: bool = False
    """Pods with a PersistentVolumeClaim are not proposed."""
    priority_threshold: int | None = None
    label_selector: Mapping[str, str] | None = None
    include_namespaces: frozenset[str] = frozenset()
    """Empty: all."""
    exclude_namespaces: frozenset[str] = frozenset()
    skip_gates: frozenset[SkipGate] = frozenset()

    def problems(self) -> list[str]:
        """Returns what is wrong with the settings."""
        both = self.include_namespaces and self.exclude_namespaces
        return ["namespaces: include or exclude, not both"] if both else []


def eviction_cost(annotation: str) -> int:
    """Returns a 32-bit cost; 0 where the text is not one. A sign `+` and leading zeros are not accepted."""
    cost = int(annotation) if _COST.fullmatch(annotation) else 0
    return cost if -(2**31) <= cost <= NEVER_COST else 0


def cost_of(pod: PlacedPod) -> int:
    """Returns the pod's eviction cost; 0 by default."""
    return next((eviction_cost(pod.annotations[name]) for name in EVICTION_COSTS if name in pod.annotations), 0)


def protection(pod: PlacedPod, settings: EvictorSettings) -> ProtectionReason | None:
    """Returns the first reason not to propose the pod; None where it may be proposed."""
    always = _always(pod)
    if always is not None:
        return always
    if any(pod.annotations.get(name, "false") != "false" for name in EVICT):
        return None
    gates = settings.skip_gates
    checks = (
        (SkipGate.NAMESPACES, ProtectionReason.NAMESPACE, not _namespace_allowed(pod, settings)),
        (SkipGate.BARE_PODS, ProtectionReason.BARE_POD, _is_protected_bare_pod(pod, settings)),
        (SkipGate.SYSTEM_CRITICAL, ProtectionReason.SYSTEM_CRITICAL, _is_critical(pod, settings)),
        (SkipGate.PRIORITY_THRESHOLD, ProtectionReason.PRIORITY_THRESHOLD, _is_above_threshold(pod, settings)),
        (SkipGate.LOCAL_STORAGE, ProtectionReason.LOCAL_STORAGE, _keeps_local_data(pod, settings)),
        (SkipGate.PVC, ProtectionReason.PVC, settings.ignore_pvc and pod.pvc),
        (SkipGate.LABEL_SELECTOR, ProtectionReason.LABEL_SELECTOR, not _is_selected(pod, settings)),
    )
    return next((reason for gate, reason, holds in checks if holds and gate not in gates), None)


def _always(pod: PlacedPod) -> ProtectionReason | None:
    """No setting and no mark lifts these."""
    checks = (
        (ProtectionReason.TERMINATING, pod.terminating),
        (ProtectionReason.MIRROR, pod.mirror),
        (ProtectionReason.STATIC, pod.static),
        (ProtectionReason.DAEMON_SET, "DaemonSet" in pod.owner_kinds),
        (ProtectionReason.EVICTION_COST, cost_of(pod) == NEVER_COST),
        (ProtectionReason.DO_NOT_DISRUPT, any(pod.annotations.get(name) == "true" for name in DO_NOT_DISRUPT)),
        (ProtectionReason.NOT_SAFE_TO_EVICT, pod.annotations.get(SAFE_TO_EVICT) == "false"),
        (ProtectionReason.MOVE_FAILED, pod.move_failed),
        (ProtectionReason.UNREAD_RULES, bool(pod.unread_rules) and not pod.has_failed),
    )
    return next((reason for reason, holds in checks if holds), None)


def _namespace_allowed(pod: PlacedPod, settings: EvictorSettings) -> bool:
    included = not settings.include_namespaces or pod.namespace in settings.include_namespaces
    return included and pod.namespace not in settings.exclude_namespaces


def _is_protected_bare_pod(pod: PlacedPod, settings: EvictorSettings) -> bool:
    failed = settings.evict_failed_bare_pods and pod.phase == "Failed"
    return not pod.owner_kinds and not settings.evict_all_bare_pods and not failed


def _is_critical(pod: PlacedPod, settings: EvictorSettings) -> bool:
    return (pod.priority or 0) >= SYSTEM_CRITICAL_PRIORITY and not settings.evict_system_critical


def _is_above_threshold(pod: PlacedPod, settings: EvictorSettings) -> bool:
    if settings.priority_threshold is None or settings.evict_system_critical or pod.priority is None:
        return False
    return pod.priority >= settings.priority_threshold


def _keeps_local_data(pod: PlacedPod, settings: EvictorSettings) -> bool:
    return pod.local_storage and not settings.evict_local_storage and pod.annotations.get(SAFE_TO_EVICT) != "true"


def _is_selected(pod: PlacedPod, settings: EvictorSettings) -> bool:
    selector = settings.label_selector or {}
    return all(pod.labels.get(key) == value for key, value in selector.items())
