"""The fleet as a whole: its level at a moment, what was lent and used since, which nodes need somebody, who is held.

CPU in milli-cores, memory in bytes, ratios 0..1, times aware UTC. Sums cover only nodes whose report is fresh.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from slackwater.console.domain.views import DecisionSummary, NodeView, PodView
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.model.quantities import Resources

FRESH = timedelta(seconds=20)
"""A report older than this says nothing about now: four of the usual intervals."""
LEVEL_SECONDS = 15
"""How often the fleet's level is kept; a kept level stands for this many seconds."""
NOTHING = Resources()
BORROWING = ("batch", "free")
"""Tiers that live on what is lent."""


@dataclass(frozen=True, slots=True)
class FleetLevel:
    """All fresh nodes together. `requested` is what owners (prod, mid) reserved; `silent` nodes are in no sum."""

    at: datetime
    nodes: int
    silent: int
    capacity: Resources = NOTHING
    requested: Resources = NOTHING
    offered: Resources = NOTHING
    usage: Resources = NOTHING
    system: Resources = NOTHING
    tiers: Mapping[str, Resources] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gained:
    """What lower tiers got between two times, in core-hours and GiB-hours.

    `lent` is what was offered, `used` what batch and free really used. `covered_seconds` is how much of the time has a
    kept level; of the rest nothing is known, and nothing is counted.
    """

    since: datetime
    until: datetime
    covered_seconds: float
    lent_core_hours: float
    used_core_hours: float
    lent_gib_hours: float
    used_gib_hours: float

    @property
    def coverage(self) -> float:
        """Share of the time that is known, 0..1."""
        return min(1.0, self.covered_seconds / max(1.0, (self.until - self.since).total_seconds()))


def gained(since: datetime, until: datetime, levels: int, lent: Resources, used: Resources) -> Gained:
    """From the sums over that many kept levels, each of which stands for LEVEL_SECONDS."""
    hours = LEVEL_SECONDS / 3600
    return Gained(
        since,
        until,
        levels * LEVEL_SECONDS,
        lent.cpu_milli / 1000 * hours,
        used.cpu_milli / 1000 * hours,
        lent.memory_bytes / 2**30 * hours,
        used.memory_bytes / 2**30 * hours,
    )


def borrowed(tiers: Mapping[str, Resources]) -> Resources:
    """What the borrowing tiers use."""
    return sum((tiers[name] for name in BORROWING if name in tiers), NOTHING)


def requested(pods: Iterable[PodView]) -> Resources:
    """What the owners of a node reserved: the requests of its prod and mid pods."""
    return sum((pod.request for pod in pods if pod.tier in ("prod", "mid")), NOTHING)


@dataclass(frozen=True, slots=True)
class Totals:
    """How many nodes there are, and in which state; `throttled_*` and pressures count fresh nodes only."""

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
"""Ensurance's own default for prod CPU pressure; taken where no effect has named another one yet."""
SHOWS = ("all", "attention", "above", "throttled", "silent")


def is_fresh(node: NodeView, now: datetime) -> bool:
    """Its last report is recent and nobody has given it up. A `fresh` of an earlier run counts for nothing."""
    return node.liveness not in ("lost", "stale") and node.usage is not None and now - node.usage.sampled_at < FRESH


def state_of(node: NodeView, now: datetime) -> str:
    """`fresh`, `stale`, `lost`, or `unknown` for a node that never reported; by the age of what we have."""
    if node.usage is None:
        return "unknown"
    if node.liveness == "lost":
        return "lost"
    return "fresh" if is_fresh(node, now) else "stale"


def attention(node: NodeView, now: datetime, waterline: float) -> int:
    """3 above its waterline, 2 silent, 1 throttled, 0 well."""
    if not is_fresh(node, now):
        return 2
    assert node.usage is not None  # noqa: S101 - a fresh node has reported
    if (node.usage.prod_pressure or 0.0) > waterline:
        return 3
    return 1 if node.usage.throttled_pods else 0


def order(node: NodeView, now: datetime, waterline: float) -> tuple[int, int, str]:
    """Sort key: who needs somebody comes first. Pressure counts in steps of 5 %, so rows do not dance."""
    pressure = (node.usage.prod_pressure or 0.0) if node.usage is not None else 0.0
    return -attention(node, now, waterline), -math.floor(pressure * 20), node.name


def shown(node: NodeView, wanted: NodeQuery, now: datetime, waterline: float) -> bool:
    """Whether a query asks for this node."""
    rank = attention(node, now, waterline)
    throttled = node.usage is not None and node.usage.throttled_pods > 0 and is_fresh(node, now)
    asked = {"attention": rank > 0, "above": rank == 3, "silent": rank == 2, "throttled": throttled}
    pool = node.facts.pool if node.facts else ""
    return asked.get(wanted.show, True) and wanted.pool in (None, pool) and wanted.text.lower() in node.name.lower()


@dataclass(frozen=True, slots=True)
class Guard:
    """A pod that is held now: since when, at which limit, for which reason; `decision_id` is the record in force.

    `since`, `reason` and `decision_id` are None when no decision about it is kept.
    """

    pod: PodView
    since: datetime | None
    reason: Reason | None
    decision_id: str | None
    relieved: bool | None


def guards_of(pods: Iterable[PodView], actions: Sequence[DecisionSummary]) -> list[Guard]:
    """For each throttled pod, the decisions that hold it. `actions` may be of many nodes, in any order."""
    newest_first = sorted(actions, key=lambda each: (each.decided_at, each.id), reverse=True)
    return [_guard(pod, newest_first) for pod in pods if pod.throttled]


def _guard(pod: PodView, newest_first: Sequence[DecisionSummary]) -> Guard:
    """Back in time until the decision that found the pod with its own limit."""
    since: datetime | None = None
    in_force: DecisionSummary | None = None
    for decision in newest_first:
        action = next((each for each in decision.actions if each.pod_uid == pod.uid), None)
        if action is None or decision.kind not in (DecisionKind.THROTTLE, DecisionKind.RESTORE):
            continue
        if action.cpu_limit_after_milli == pod.original_cpu_limit_milli:
            break  # given back whole: what lies before is another story
        in_force = in_force or decision
        since = decision.decided_at
        if action.cpu_limit_before_milli == pod.original_cpu_limit_milli:
            break
    if in_force is None:
        return Guard(pod, None, None, None, None)
    return Guard(pod, since, in_force.reason, in_force.id, in_force.relieved)
