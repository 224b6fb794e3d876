"""The front page: the level of the fleet over hours, today's gains, throttled pods, and nodes that need attention.

Its cost does not grow with the fleet (4 or 2,000 nodes): sums of one row per node, stored levels, and the few nodes it
names.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.charts.bars import tank
from slackwater.charts.fleet_chart import FleetSample, Wording, fleet_chart
from slackwater.charts.level_chart import LevelSample
from slackwater.charts.stacks import StackLayer, water_level
from slackwater.charts.units import cores, gibibytes
from slackwater.console.domain.conditions import as_of, closing
from slackwater.console.domain.episodes import DecisionRow
from slackwater.console.domain.fleet import (
    FRESH,
    LEVEL_SECONDS,
    FleetLevel,
    Gained,
    HeldPod,
    NodeQuery,
    Totals,
    held_pods,
    state_of,
)
from slackwater.console.domain.policies import NODE_QOS, fleet_waterline, own_waterlines
from slackwater.console.domain.pools import PoolRow
from slackwater.console.domain.summary import summary_of
from slackwater.console.domain.views import NodeView
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.lent_report import LentReport, lent_report
from slackwater.console.usecases.pictures import ACTIONS, LEAST_SPAN, Picture, both, feed, used_by_layer
from slackwater.console.usecases.pool_levels import PoolLevels, pool_levels
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock
from slackwater.offers.lent_use import lent_use

SPANS = {"15m": 900, "1h": 3600, "6h": 21600, "24h": 86400}
BUCKETS = 120
GUARDS, ATTENTION = 12, 8
GUARD_MEMORY = timedelta(hours=6)
"""How far back it searches for the decisions that throttle a pod."""
DECISIONS_OF_POD = 50
"""How many decisions about one pod it searches where it has found none of its node."""
RESOURCES = {"cpu": Wording(cores, "cores", 1000.0), "memory": Wording(gibibytes, "GiB", float(2**30))}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of a table of nodes; `state` depends on the age of the last report."""

    node: NodeView
    state: str
    tank: str
    capacity: int
    used: int | None
    """None: the node has never reported."""
    offered: int | None
    above: bool
    closed: bool
    """The node is cordoned: it takes no new pods."""
    capacity_bytes: int = 0
    used_bytes: int | None = None
    offered_bytes: int | None = None
    borrowed: Resources | None = None
    """What batch and free use within the node's offer; None as for `used`."""


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """`/`: sums cover nodes with a fresh report."""

    now: datetime
    span: str
    resource: str
    level: FleetLevel
    layers: tuple[StackLayer, ...]
    capacity: int
    requested: int
    picture: Picture | None
    """None: there is no data to draw."""
    history: int
    totals: Totals
    waterline: float | None
    """None: no rule in force has one."""
    own_waterlines: Sequence[tuple[str, float]]
    """Of NodeQOS documents that select nodes."""
    gained: Gained
    lent: LentReport
    guards: Sequence[HeldPod]
    pools: Sequence[PoolRow]
    pool_levels: PoolLevels
    attention: Sequence[NodeRow]

    actions: Sequence[DecisionRow]


class Overview:
    """Caches each view for a second, so that many readers cost as much as one."""

    def __init__(self, reads: ReadQueries, clock: Clock, keep_seconds: float = 1.0) -> None:
        self._reads = reads
        self._clock = clock
        self._keep = timedelta(seconds=keep_seconds)
        self._kept: dict[tuple[str, str], OverviewPage] = {}
        self._turn = asyncio.Lock()

    async def __call__(self, span: str = "1h", resource: str = "cpu") -> OverviewPage:
        """The page; unknown spans and resources give the default ones."""
        asked = (span if span in SPANS else "1h", resource if resource in RESOURCES else "cpu")
        async with self._turn:
            now = self._clock.now()
            kept = self._kept.get(asked)
            if kept is None or not timedelta() <= now - kept.now < self._keep:
                kept = self._kept[asked] = await overview_page(self._reads, now, *asked)
            return kept


async def overview_page(reads: ReadQueries, now: datetime, span: str = "1h", resource: str = "cpu") -> OverviewPage:
    fresh_after = now - FRESH
    waterline = await known_waterline(reads)
    level = await reads.level(now, fresh_after)
    picture, history = await _history(reads, now, span, resource, level)
    capacity = in_unit(level.capacity, resource)
    pools = await reads.pools(fresh_after, waterline)
    _, rows = await reads.nodes_shown(NodeQuery(limit=ATTENTION), fresh_after, waterline)
    return OverviewPage(
        now=now,
        span=span,
        resource=resource,
        level=level,
        layers=fleet_layers(level, resource),
        capacity=capacity,
        requested=in_unit(level.requested, resource),
        picture=picture,
        history=history,
        totals=await reads.totals(fresh_after, waterline),
        waterline=waterline if math.isfinite(waterline) else None,
        own_waterlines=own_waterlines(await reads.resources(NODE_QOS)),
        gained=await reads.gained(now.replace(hour=0, minute=0, second=0, microsecond=0), now),
        lent=await lent_report(reads, now, level),
        guards=await _guards(reads, now),
        pools=pools,
        pool_levels=pool_levels(pools, resource, RESOURCES[resource]),
        attention=[node_row(node, now, waterline) for node in rows],
        actions=await feed(reads, kinds=ACTIONS),
    )


async def known_waterline(reads: ReadQueries) -> float:
    """The waterline on prod CPU pressure of the rules for all nodes; without one no node is above it (infinity)."""
    waterline = fleet_waterline(await reads.resources(NODE_QOS))
    return math.inf if waterline is None else waterline


async def _guards(reads: ReadQueries, now: datetime) -> Sequence[HeldPod]:
    pods = await reads.throttled_pods(now - FRESH, GUARDS)
    if not pods:
        return ()
    actions = await reads.actions_on(sorted({pod.node for pod in pods}), now - GUARD_MEMORY, 500)
    return [await _with_record(reads, held) for held in held_pods(pods, actions)]


async def _with_record(reads: ReadQueries, held: HeldPod) -> HeldPod:
    """The held pod with the decisions about it alone, where the recent ones of its node do not include it."""
    if held.decision_id is not None:
        return held
    records = await reads.decisions_about(held.pod.uid, DECISIONS_OF_POD, None)
    return next(iter(held_pods([held.pod], [summary_of(record, None) for record in records])), held)


async def _history(
    reads: ReadQueries, now: datetime, span: str, resource: str, level: FleetLevel
) -> tuple[Picture | None, int]:
    """The picture, if there is any data, and its number of levels. Its right edge is the current level."""
    since, step, kept = await kept_levels(reads, now, SPANS[span])
    samples = [sample_of(kept_level, resource) for kept_level in kept if since <= kept_level.at < now]
    if level.nodes:
        samples.append(sample_of(level, resource))
    if not any(sample.capacity for sample in samples):
        return None, len(kept)
    wording = RESOURCES[resource]
    label = f"Fleet {'CPU' if resource == 'cpu' else 'memory'} by tier, last {span}"

    picture = both(
        lambda frame: fleet_chart(frame, since, now, samples, wording, gap_seconds=3 * step, label=label),
        height=300,
        narrow_height=240,
    )
    return picture, len(kept)


async def kept_levels(reads: ReadQueries, now: datetime, seconds: int) -> tuple[datetime, int, Sequence[FleetLevel]]:
    """Begin, step and levels of the last `seconds`. A cluster that is younger begins with its first level, in the step
    of that shorter time, so that three minutes fill the chart."""
    since = now - timedelta(seconds=seconds)
    while True:
        step = max(LEVEL_SECONDS, round((now - since).total_seconds()) // BUCKETS)
        kept = await reads.levels(since, now, step)
        # a step's time is its begin, so the first level may be younger than its step: read again in smaller ones
        begin = min(kept[0].at, now - LEAST_SPAN) if kept else since
        if begin <= since + timedelta(seconds=2 * step):
            return since, step, kept
        since = begin


def in_unit(amount: Resources, resource: str) -> int:
    """The amount in milli-cores or bytes."""
    return amount.cpu_milli if resource == "cpu" else amount.memory_bytes


def used_of(level: FleetLevel, resource: str) -> dict[str, int]:
    """The usage by layer."""
    return {name: in_unit(part, resource) for name, part in [*level.tiers.items(), ("system", level.system)]}


def fleet_layers(level: FleetLevel, resource: str) -> tuple[StackLayer, ...]:
    """The fleet's level. The unused offer is the sum of what each node leaves of its own offer."""
    offered, beyond = in_unit(level.offered, resource), in_unit(level.beyond, resource)
    return water_level(used_of(level, resource), offered, in_unit(level.capacity, resource), beyond)


def sample_of(level: FleetLevel, resource: str) -> FleetSample:
    offered = in_unit(level.offered, resource)
    drawn = LevelSample(level.at, used_of(level, resource), offered, in_unit(level.beyond, resource))
    return FleetSample(drawn, in_unit(level.capacity, resource), in_unit(level.requested, resource))


def borrowed_of(node: NodeView) -> Resources | None:
    """What batch and free use within the node's offer; None for a node that never reported."""
    if node.usage is None:
        return None
    return lent_use(node.offer.batch if node.offer else None, node.usage.tiers).borrowed


def node_row(node: NodeView, now: datetime, waterline: float) -> NodeRow:
    """The row of a node. Old usage is shown, but marked as old."""
    node, state = as_of(node, now), state_of(node, now)
    capacity = node.facts.capacity.cpu_milli if node.facts else 0
    offered = node.offer.batch.cpu_milli if node.offer else None
    pressure = node.usage.prod_pressure if node.usage else None
    return NodeRow(
        node=node,
        state=state,
        tank=tank(water_level(used_by_layer(node.usage) if node.usage else {}, offered, capacity), capacity),
        capacity=capacity,
        used=node.usage.usage.cpu_milli if node.usage else None,
        offered=offered,
        above=state == "fresh" and (pressure or 0.0) > waterline,
        closed=closing(node) is not None,
        capacity_bytes=node.facts.capacity.memory_bytes if node.facts else 0,
        used_bytes=node.usage.usage.memory_bytes if node.usage else None,
        offered_bytes=node.offer.batch.memory_bytes if node.offer else None,
        borrowed=borrowed_of(node),
    )
