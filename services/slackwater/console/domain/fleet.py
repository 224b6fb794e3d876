"""The fleet as a whole: its current level, the capacity gained, the nodes that need attention, the throttled pods.

CPU in milli-cores, memory in bytes, ratios 0..1, times aware UTC. Sums cover only nodes whose report is fresh.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from slackwater.console.domain.views import DecisionSummary, NodeView, PodView
from slackwater.decisions.reasons import ONLY_TOLD, DecisionKind, Reason
from slackwater.decisions.record import Action
from slackwater.model.quantities import Resources
from slackwater.offers.lent_use import LentUse, usage_of_borrowers

FRESH = timedelta(seconds=20)
"""Maximum age of a fresh report: four of the usual intervals."""
LEVEL_SECONDS = 15
"""Interval of storing the fleet's level; a stored level stands for this many seconds."""
NOTHING = Resources()


@dataclass(frozen=True, slots=True)
class FleetLevel:
    """The sums over all fresh nodes. `requested` is what owners (prod, mid) reserved; `silent` nodes are in no sum.

    `borrowed` is what batch and free use within the offer of their own node.
    """

    at: datetime
    nodes: int
    silent: int
    capacity: Resources = NOTHING
    requested: Resources = NOTHING
    offered: Resources = NOTHING
    usage: Resources = NOTHING
    system: Resources = NOTHING
    tiers: Mapping[str, Resources] = field(default_factory=dict)
    borrowed: Resources = NOTHING

    @property
    def beyond(self) -> Resources:
        """What batch and free use beyond the offers of their nodes."""
        return (usage_of_borrowers(self.tiers) - self.borrowed).at_least_zero()


@dataclass(frozen=True, slots=True)
class Gained:
    """The capacity that lower tiers got between two times, in core-hours and GiB-hours.

    `lent` is what was offered, `used` what batch and free used of it (at most `lent`), `beyond` what they used beyond
    the offers of their nodes. `covered_seconds` is the time with a stored level; the rest is unknown and counts as
    nothing.
    """

    since: datetime
    until: datetime
    covered_seconds: float
    lent_core_hours: float
    used_core_hours: float
    lent_gib_hours: float
    used_gib_hours: float
    beyond_core_hours: float = 0.0
    beyond_gib_hours: float = 0.0

    @property
    def coverage(self) -> float:
        """The share of the time with stored levels, 0..1."""
        return min(1.0, self.covered_seconds / max(1.0, (self.until - self.since).total_seconds()))


def gained(since: datetime, until: datetime, levels: int, use: LentUse) -> Gained:
    """Gains from the sums over that many stored levels, each of which stands for LEVEL_SECONDS."""
    hours = LEVEL_SECONDS / 3600
    lent, used, beyond = (part.cpu_milli / 1000 * hours for part in (use.lent, use.borrowed, use.beyond))
    lent_gib, used_gib, beyond_gib = (
        part.memory_bytes / 2**30 * hours for part in (use.lent, use.borrowed, use.beyond)
    )
    covered = levels * LEVEL_SECONDS
    return Gained(since, until, covered, lent, used, lent_gib, used_gib, beyond, beyond_gib)


def requested(pods: Iterable[PodView]) -> Resources:
    """The requests of a node's prod and mid pods."""
    return sum((pod.request for pod in pods if pod.tier in ("prod", "mid")), NOTHING)


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of nodes by state; `throttled_*` and pressures count fresh nodes only."""

    nodes: int = 0
    fresh: int = 0
    lost: int = 0
    above: int = 0
    throttled_nodes: int = 0
    throttled_pods: int = 0
    pods: int = 0
    worst_pressure: float | None = None


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """Which nodes to list: `show` is all, attention, throttled, above or silent; `text` is part of a name."""

    show: str = "all"
    pool: str | None = None
    text: str = ""
    offset: int = 0
    limit: int = 50


DEFAULT_WATERLINE = 0.10
"""Ensurance's default for prod CPU pressure; used until a NodeQOS is known."""
SHOWS = ("all", "attention", "above", "throttled", "silent")


def is_fresh(node: NodeView, now: datetime) -> bool:
    """Whether the last report is recent and the node is not stale or lost. A `fresh` of an earlier run does not
    count.
    """
    return node.liveness not in ("lost", "stale") and node.usage is not None and now - node.usage.sampled_at < FRESH


def state_of(node: NodeView, now: datetime) -> str:
    """`fresh`, `stale`, `lost`, or `unknown` for a node that never reported; by the age of the newest report."""
    if node.usage is None:
        return "unknown"
    if node.liveness == "lost":
        return "lost"
    return "fresh" if is_fresh(node, now) else "stale"


def attention(node: NodeView, now: datetime, waterline: float) -> int:
    """3 above its waterline, 2 silent, 1 throttled, 0 no attention needed."""
    if not is_fresh(node, now):
        return 2
    assert node.usage is not None  # noqa: S101 - a fresh node has reported
    if (node.usage.prod_pressure or 0.0) > waterline:
        return 3
    return 1 if node.usage.throttled_pods else 0


def order(node: NodeView, now: datetime, waterline: float) -> tuple[int, int, str]:
    """Sort key: nodes that need attention first. Pressure is rounded to steps of 5 %, so that rows keep their order."""
    pressure = (node.usage.prod_pressure or 0.0) if node.usage is not None else 0.0
    return -attention(node, now, waterline), -math.floor(pressure * 20), node.name


def shown(node: NodeView, wanted: NodeQuery, now: datetime, waterline: float) -> bool:
    """Whether the query selects this node."""
    rank = attention(node, now, waterline)
    throttled = node.usage is not None and node.usage.throttled_pods > 0 and is_fresh(node, now)
    asked = {"attention": rank > 0, "above": rank == 3, "silent": rank == 2, "throttled": throttled}
    pool = node.facts.pool if node.facts else ""
    return asked.get(wanted.show, True) and wanted.pool in (None, pool) and wanted.text.lower() in node.name.lower()


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A throttled pod: since when, its limit, the reason; `decision_id` is the record in force.

    `since`, `reason` and `decision_id` are None when no decision about it is stored. `after` is the time of a restore
    long before the pod's last report: what throttles it now has no record yet.
    """

    pod: PodView
    since: datetime | None
    reason: Reason | None
    decision_id: str | None
    relieved: bool | None
    after: datetime | None = None


def held_pods(pods: Iterable[PodView], actions: Sequence[DecisionSummary]) -> list[HeldPod]:
    """For each throttled pod, the decisions that throttle it. `actions` may cover many nodes, in any order.

    A pod that a later decision restored wholly is not held: its last report is older than the restore.
    """
    newest_first = sorted(actions, key=lambda action: (action.decided_at, action.id), reverse=True)
    throttled = [pod for pod in pods if pod.throttled]
    return [_guard(pod, newest_first) for pod in throttled if not _is_restored(pod, newest_first)]


def _limits_of(pod: PodView, newest_first: Iterable[DecisionSummary]) -> Iterator[tuple[DecisionSummary, Action]]:
    """The executed decisions about the CPU limit of a pod."""
    for decision in newest_first:
        if decision.kind not in (DecisionKind.THROTTLE, DecisionKind.RESTORE):
            continue
        if decision.reason in ONLY_TOLD:
            continue
        for action in decision.actions:
            if action.pod_uid == pod.uid and action.memory is None:
                yield decision, action


def _is_restored(pod: PodView, newest_first: Iterable[DecisionSummary]) -> bool:
    decision, action = next(_limits_of(pod, newest_first), (None, None))
    if decision is None or action is None or pod.reported_at > decision.decided_at + FRESH:
        return False
    return action.cpu_limit_after_milli == pod.original_cpu_limit_milli


def _guard(pod: PodView, newest_first: Sequence[DecisionSummary]) -> HeldPod:
    """Searches back in time until the decision that found the pod with its own limit."""
    since: datetime | None = None
    in_force: DecisionSummary | None = None
    for decision, action in _limits_of(pod, newest_first):
        if action.cpu_limit_after_milli == pod.original_cpu_limit_milli:
            if in_force is None:
                return HeldPod(pod, None, decision.reason, decision.id, decision.relieved, after=decision.decided_at)
            break  # fully restored here, so earlier decisions do not concern this throttle
        in_force = in_force or decision
        since = decision.decided_at
        if action.cpu_limit_before_milli == pod.original_cpu_limit_milli:
            break
    if in_force is None:
        return HeldPod(pod, None, None, None, None)
    return HeldPod(pod, since, in_force.reason, in_force.id, in_force.relieved)
