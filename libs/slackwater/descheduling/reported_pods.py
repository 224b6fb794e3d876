"""From what agents report of a pod to what placement reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slackwater.descheduling.placement import PODS, PlacedPod
from slackwater.model.nodes import NodeFacts
from slackwater.model.placement_rules import NO_RULES
from slackwater.model.pods import FAILED, WELL, Pod
from slackwater.waterline.facts.eviction_marks import SOURCE, STATIC_SOURCES, first_of

MOST_PODS_PER_NODE: Final = 110
"""As the kubelet has it by default, of nodes whose agent does not report it."""


def other_resources(facts: NodeFacts | None) -> dict[str, int]:
    """Returns what a node has beyond CPU and memory: how many pods it takes, and devices."""
    return {PODS: MOST_PODS_PER_NODE, **(facts.resources if facts is not None else {})}


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
        host_ports=rules.host_ports,
        requests={**placed.requests, **rules.resources}
        if rules.resources and status.phase != FAILED
        else placed.requests,
        unread_rules=rules.unread,
        local_storage=rules.local_storage,
        pvc=rules.claims_volumes,
        static=is_static,
    )
