"""Pods that are neither throttled nor evicted, whatever a document requests: the agent itself, and the system."""

from __future__ import annotations

from slackwater.model.pods import Pod
from slackwater.model.tiers import QoSClass
from slackwater.waterline.facts import eviction_marks as marks

PROTECTED = "protected"
"""Stable reason beside a pod whose limit was not written."""


def protection_reason(pod: Pod) -> str | None:
    """Why the pod is protected, or None. Planners leave protected pods out; this holds for writers that do not."""
    if pod.qos is QoSClass.SYSTEM:
        return "pods of QoS class SYSTEM are never touched"
    if pod.namespace in marks.SYSTEM_NAMESPACES or pod.priority >= marks.SYSTEM_CRITICAL:
        return "pods of the system are never touched"
    kept = marks.first_of(pod.labels, marks.PROTECTED)
    if kept is not None:
        return "the agent itself runs in this pod" if kept == marks.AGENT else f"the pod is protected: {kept}"
    if marks.first_of(pod.labels, marks.SOURCE) in marks.STATIC_SOURCES:
        return "static pods are never touched"
    return None
