"""Converts a managed pod of plain Linux to a candidate, the same for ensurance and a disconnected
agent.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.model.pods import Pod
from slackwater.model.tiers import BORROWING_TIERS
from slackwater.waterline.facts import eviction_marks as marks
from slackwater.waterline.facts.amounts import Number
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import Throttled, container_of


def pod_view(
    pod: Pod,
    cpu_milli: Number | None,
    memory_bytes: Number | None,
    original_limit_milli: int | None,
    ours: Throttled | None,
    is_terminating: bool = False,
    waiting_ratio: Number | None = None,
) -> PodUse:
    """Returns the pod as a candidate. `original_limit_milli` is its CPU limit before any throttle,
    `ours` the one in force. Requests of lower tiers are requests of lent resources.
    """
    lent = pod.tier in BORROWING_TIERS
    plain = PodUse(
        pod.uid,
        pod.name,
        pod.namespace,
        pod.tier,
        pod.qos,
        pod.priority,
        pod.started_at,
        pod.labels,
        cpu_milli,
        memory_bytes,
        pod.request.cpu_milli,
        None,
        pod.request.cpu_milli if lent else 0,
        0,
        pod.request.memory_bytes if lent else 0,
        0,
        {},
        (container_of(cpu_milli, pod.request.cpu_milli, original_limit_milli, ours, waiting_ratio),),
        False,
        pod.namespace in marks.SYSTEM_NAMESPACES or pod.priority >= marks.SYSTEM_CRITICAL,
        False,
        is_terminating,
    )
    return _marked(plain) if pod.labels else plain


def _marked(pod: PodUse) -> PodUse:
    """Returns the pod with the attributes in its labels."""
    labels, kept = pod.labels, marks.first_of(pod.labels, marks.PROTECTED)
    return replace(
        pod,
        is_own=kept == marks.AGENT,
        is_static=kept == marks.STATIC or marks.first_of(labels, marks.SOURCE) in marks.STATIC_SOURCES,
        is_system=pod.is_system or kept == marks.SYSTEM,
        eviction_priority=marks.whole_number(marks.first_of(labels, marks.PRIORITY)) or 0,
        label_priority=marks.whole_number(marks.first_of(labels, marks.LABEL_PRIORITY)),
        eviction_enabled=marks.truth(marks.first_of(labels, marks.ENABLED)),
        eviction_policies=marks.eviction_policies(marks.first_of(labels, marks.POLICIES)),
    )
