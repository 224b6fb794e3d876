"""Converts the limits in force on one node between intents, stored milli-cores and the planner's
quotas, and a managed pod of plain Linux to a candidate.

The limits are authoritative for what is throttled: a report may not yet show a limit that was just sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from slackwater.model.pods import Pod
from slackwater.model.records import record
from slackwater.model.tiers import BORROWING_TIERS
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.plan import Plan, Step
from slackwater.waterline.facts import eviction_marks as marks
from slackwater.waterline.facts.amounts import Number
from slackwater.waterline.facts.pods import PERIOD_US, Container, PodUse

GRAIN_US: Final = PERIOD_US // 1000
"""One milli-core: limits are sent in whole ones."""


@record(frozen=True, slots=True)
class Throttled:
    """A limit in force (or just sent), and the original limit (None = unlimited)."""

    uid: str
    name: str
    tier: str
    limit_milli: int
    original_limit_milli: int | None


def container_of(
    usage_milli: Number | None,
    request_milli: int,
    original_milli: int | None,
    ours: Throttled | None,
    waiting_ratio: Number | None = None,
    *,
    is_readable: bool = True,
) -> Container:
    """Returns a pod's only container. `original_milli` is its limit before any throttle (None =
    unlimited).
    """
    if ours is not None:
        original_milli = ours.original_limit_milli
    original = None if original_milli is None else original_milli * GRAIN_US
    return Container(
        "main",
        usage_milli,
        original if ours is None else ours.limit_milli * GRAIN_US,
        original,
        PERIOD_US,
        request_milli,
        original_milli,
        is_readable,
        GRAIN_US,
        waiting_ratio,
    )


def milli_of_quota(quota_us: int | None) -> int | None:
    return None if quota_us is None else quota_us // GRAIN_US


def limits_of(step: Step) -> tuple[int | None, int | None]:
    """Returns the limit of a pod before and after a step, in milli-cores (None = unlimited)."""
    change = step.changes[0]
    return milli_of_quota(change.before_us), milli_of_quota(change.after_us)


def after(before: Iterable[Throttled], plan: Plan, pods: Mapping[str, PodUse]) -> tuple[Throttled, ...]:
    """Returns the limits in force once a plan is carried out; pods back at their original are
    dropped.
    """
    kept = {one.uid: one for one in before}
    for step in plan.steps:
        if not step.changes:
            continue
        pod, old = pods[step.uid], kept.pop(step.uid, None)
        original = old.original_limit_milli if old is not None else milli_of_quota(pod.containers[0].original_quota_us)
        limit = limits_of(step)[1]
        if limit is not None and (step.kind is ActionKind.THROTTLE or limit != original):
            kept[step.uid] = Throttled(step.uid, step.name, str(pod.tier or ""), limit, original)
    return tuple(kept.values())


def pod_view(
    pod: Pod,
    cpu_milli: Number | None,
    memory_bytes: Number | None,
    original_limit_milli: int | None,
    ours: Throttled | None,
    is_terminating: bool = False,
    waiting_ratio: Number | None = None,
    *,
    is_readable: bool = True,
) -> PodUse:
    """Returns the pod as a candidate. `original_limit_milli` is its CPU limit before any throttle,
    `ours` the one in force. A limit that could not be read (not `is_readable`) stays as it is. Requests
    of lower tiers are requests of lent resources.
    """
    lent = pod.tier in BORROWING_TIERS
    request_milli = pod.request.cpu_milli
    container = container_of(
        cpu_milli, request_milli, original_limit_milli, ours, waiting_ratio, is_readable=is_readable
    )
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
        request_milli,
        None,
        request_milli if lent else 0,
        0,
        pod.request.memory_bytes if lent else 0,
        0,
        {},
        (container,),
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
