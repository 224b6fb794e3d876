"""From what agents report of a pod to what placement reads."""

from __future__ import annotations

from dataclasses import replace

from slackwater.descheduling.placement import PlacedPod
from slackwater.model.placement_rules import NO_RULES
from slackwater.model.pods import WELL, Pod
from slackwater.waterline.facts.eviction_marks import SOURCE, STATIC_SOURCES, first_of


def with_details(placed: PlacedPod, pod: Pod) -> PlacedPod:
    """Returns the placed pod with the status and the rules that are reported of it. Most pods have neither, and stay
    the same object."""
    is_static = bool(pod.labels) and first_of(pod.labels, SOURCE) in STATIC_SOURCES
    if pod.status is None and pod.rules is None and not is_static:
        return placed
    status, rules = pod.status or WELL, pod.rules or NO_RULES
    return replace(
        placed,
        phase=status.phase,
        phase_reason=status.reason,
        restarts=status.restarts,
        terminating=placed.terminating or status.terminating,
        node_selector=rules.node_selector,
        affinity=rules.affinity,
        tolerations=rules.tolerations,
        spread=rules.spread,
        anti_affinity=rules.anti_affinity,
        unread_rules=rules.unread,
        local_storage=rules.local_storage,
        pvc=rules.claims_volumes,
        static=is_static,
    )
