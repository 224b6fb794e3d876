"""What the pages show, put together from the read model; how it looks is the templates' and drawings' concern."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.console.domain.drawing.bars import tank, waterfall_bar, waterfall_range
from slackwater.console.domain.drawing.level_chart import GAP_SECONDS, LevelSample, Mark, level_chart
from slackwater.console.domain.drawing.line_charts import bounded, forecast_chart, limit_lane, pressure_chart
from slackwater.console.domain.drawing.stacks import Layer, water_level
from slackwater.console.domain.drawing.svg import Frame
from slackwater.console.domain.views import (
    Chain,
    DecisionFilter,
    DecisionSummary,
    ForecastView,
    NodeView,
    OfferView,
    PodView,
    UsagePoint,
    WaterfallRow,
)
from slackwater.console.domain.waterfall import adds_up, waterfall_of
from slackwater.console.ports import Reads
from slackwater.console.usecases.explain import chain, existing_decision, existing_node
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.model.quantities import Resources

SPAN, LEAST_SPAN = timedelta(minutes=15), timedelta(minutes=3)
BUCKET_SECONDS = 10
FEED_LENGTH = 11
WHOLE, HALF = 880.0, 580.0
"""Widths of charts in SVG units: about the pixels that they get, so that text keeps its size."""
ACTIONS = (DecisionKind.THROTTLE, DecisionKind.RESTORE, DecisionKind.EVICT)
TIER_ORDER = {"prod": 0, "mid": 1, "batch": 2, "free": 3}


@dataclass(frozen=True, slots=True)
class Picture:
    """The same chart for wide and narrow windows; the style sheet shows one of them."""

    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A line of the fleet's table."""

    node: NodeView
    tank: str
    capacity: int
    used: int
    borrowed: int
    offered: int | None


@dataclass(frozen=True, slots=True)
class FleetPage:
    """`/`: the sums are over nodes that are not lost, in milli-cores."""

    now: datetime
    rows: tuple[NodeRow, ...]
    layers: tuple[Layer, ...]
    capacity: int
    used: int
    offered: int
    borrowed: int
    throttled_pods: int
    throttled_nodes: int
    worst_pressure: float | None
    alive: int
    level: Picture
    decisions: Sequence[DecisionSummary]


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a waterfall with its picture."""

    row: WaterfallRow
    picture: str


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A record's terms drawn; `total` is the bar of the result."""

    record: DecisionRecord
    bars: tuple[Bar, ...]
    total: str
    adds_up: bool


@dataclass(frozen=True, slots=True)
class NodePage:
    """`/nodes/{name}`."""

    now: datetime
    node: NodeView
    layers: tuple[Layer, ...]
    usage: Picture
    pressure: Picture
    lane: Picture | None
    forecast: Picture
    latest_forecast: ForecastView | None
    waterfall: Waterfall | None
    pods: Sequence[PodView]
    decisions: Sequence[DecisionSummary]


@dataclass(frozen=True, slots=True)
class DecisionPageView:
    """`/decisions/{id}`."""

    now: datetime
    waterfall: Waterfall
    chain: Chain


def used_by_layer(point: UsagePoint) -> dict[str, int]:
    """Milli-cores per layer of a report."""
    parts = {name: part.cpu_milli for name, part in point.tiers.items()}
    return {**parts, "system": point.system.cpu_milli if point.system else 0}


async def fleet_page(reads: Reads, now: datetime) -> FleetPage:
    nodes = [node for node in await reads.nodes() if node.liveness != "lost"]
    everyone = await reads.nodes()
    rows = tuple(_row(node) for node in everyone)
    counted = [row for row in rows if row.node.liveness != "lost"]
    used: dict[str, int] = {}
    for node in nodes:
        for name, value in (used_by_layer(node.usage) if node.usage else {}).items():
            used[name] = used.get(name, 0) + value
    capacity = sum(row.capacity for row in counted)
    offered = sum(row.offered or 0 for row in counted)
    pressures = [n.usage.prod_pressure for n in nodes if n.usage and n.usage.prod_pressure is not None]
    throttled = [n.usage.throttled_pods for n in nodes if n.usage and n.usage.throttled_pods]
    return FleetPage(
        now=now,
        rows=rows,
        layers=water_level(used, offered, capacity),
        capacity=capacity,
        used=sum(row.used for row in counted),
        offered=offered,
        borrowed=sum(row.borrowed for row in counted),
        throttled_pods=sum(throttled),
        throttled_nodes=len(throttled),
        worst_pressure=max(pressures, default=None),
        alive=sum(node.liveness == "fresh" for node in everyone),
        level=await _fleet_level(reads, now, capacity),
        decisions=await _feed(reads),
    )


async def _feed(reads: Reads, node: str | None = None) -> Sequence[DecisionSummary]:
    """The newest decisions; predictions are left out, the offers that follow from them lead there."""
    found = await reads.decisions(DecisionFilter(node=node, limit=4 * FEED_LENGTH))
    return [each for each in found if each.kind is not DecisionKind.PREDICTION][:FEED_LENGTH]


def _row(node: NodeView) -> NodeRow:
    capacity = node.facts.capacity.cpu_milli if node.facts else 0
    used = used_by_layer(node.usage) if node.usage else {}
    offered = node.offer.batch.cpu_milli if node.offer else None
    return NodeRow(
        node=node,
        tank=tank(water_level(used, offered, capacity), capacity),
        capacity=capacity,
        used=node.usage.usage.cpu_milli if node.usage else 0,
        borrowed=used.get("batch", 0) + used.get("free", 0),
        offered=offered,
    )


async def _fleet_level(reads: Reads, now: datetime, capacity: int) -> Picture:
    since = now - SPAN
    points = await reads.fleet_usage(since, now, BUCKET_SECONDS)
    offers = offered_over_time(await reads.offers(None, since, now))
    since = begin_of(now, [point.at for point in points])
    samples = []
    for point in points[:-1] or points:  # the newest bucket is still filling
        used = {name: part.cpu_milli for name, part in point.tiers.items()} | {"system": point.system.cpu_milli}
        samples.append(LevelSample(point.at, used, _at(offers, point.at)))
    return _both(
        lambda frame: level_chart(frame, since, now, samples, capacity, label="Fleet CPU by tier over time"),
        height=280,
    )


def begin_of(now: datetime, samples: Sequence[datetime]) -> datetime:
    """Where charts begin: at the first sample of the last 15 minutes, but 3 minutes ago at the latest."""
    return min([now - LEAST_SPAN, *samples[:1]])


def offered_over_time(offers: Sequence[OfferView]) -> list[tuple[datetime, int]]:
    """The sum of all nodes' offers after each change, in milli-cores."""
    current: dict[str, int] = {}
    found = []
    for offer in offers:
        current[offer.node] = offer.batch.cpu_milli
        found.append((offer.offered_at, sum(current.values())))
    return found


def _at(steps: Sequence[tuple[datetime, int]], moment: datetime) -> int | None:
    found = None
    for at, value in steps:
        if at > moment:
            break
        found = value
    return found


async def node_page(reads: Reads, name: str, now: datetime) -> NodePage:
    node = await existing_node(reads, name)
    since = now - SPAN
    points = await reads.usage(name, since, now)
    since = begin_of(now, [point.sampled_at for point in points])
    offers = offered_over_time(await reads.offers(name, since, now))
    decisions = await reads.decisions(DecisionFilter(node=name, since=since, limit=200))
    acted = [each for each in decisions if each.kind in ACTIONS]
    forecasts = await reads.forecasts(name, since, now)
    capacity = node.facts.capacity.cpu_milli if node.facts else 0
    marks = marks_of(acted)
    samples = [LevelSample(p.sampled_at, used_by_layer(p), _at(offers, p.sampled_at)) for p in points]
    waterline = await _waterline(reads, acted)
    pressures = [(p.sampled_at, p.prod_pressure) for p in points if p.prod_pressure is not None]
    prod = [(p.sampled_at, float(p.tiers.get("prod", Resources()).cpu_milli)) for p in points]
    expected = bounded([(f.predicted_at, float(f.prod_peak.cpu_milli)) for f in forecasts], since)
    limits = limit_spans(points, now)
    record = await reads.decision_at(name, "batch-cpu", now)
    pods = sorted(await reads.pods(name), key=lambda pod: (TIER_ORDER.get(pod.tier, 9), pod.name))
    return NodePage(
        now=now,
        node=node,
        layers=water_level(
            used_by_layer(node.usage) if node.usage else {},
            node.offer.batch.cpu_milli if node.offer else None,
            capacity,
        ),
        usage=_both(lambda frame: level_chart(frame, since, now, samples, capacity, marks), height=240),
        pressure=_both(lambda frame: pressure_chart(frame, since, now, pressures, waterline, marks), height=150),
        lane=_both(lambda frame: limit_lane(frame, since, now, limits), height=22, flat=True) if limits else None,
        forecast=_both(lambda frame: forecast_chart(frame, since, now, prod, expected), height=170, width=HALF),
        latest_forecast=forecasts[-1] if forecasts else None,
        waterfall=drawn(record) if record else None,
        pods=pods,
        decisions=await _feed(reads, name),
    )


async def _waterline(reads: Reads, acted: Sequence[DecisionSummary]) -> float | None:
    """The waterline of prod pressure, as the last measured effect on it names it."""
    for each in acted[:20]:
        effect = await reads.effect(each.id)
        if effect is not None and effect.metric == "prod_cpu_pressure":
            return effect.waterline
    return None


def marks_of(acted: Sequence[DecisionSummary]) -> list[Mark]:
    """Flags for what was done, oldest first."""
    return [
        Mark(
            at=each.decided_at,
            css=str(each.kind),
            label=f"{each.decided_at:%H:%M:%S} {each.kind}: {str(each.reason).replace('_', ' ')}",
            href=f"/decisions/{each.id}",
        )
        for each in reversed(acted)
    ]


def limit_spans(points: Sequence[UsagePoint], until: datetime) -> list[tuple[datetime, datetime, int]]:
    """From when to when batch was limited to how much, from the limits that the reports carry.

    A limit lasts until the next report; where reports are missing nothing is known, so it is drawn no further.
    """
    spans: list[tuple[datetime, datetime, int]] = []
    for point, following in itertools.zip_longest(points, points[1:]):
        limit, begin = point.batch_limit_milli, point.sampled_at
        end = following.sampled_at if following is not None else until
        if limit is None or not point.throttled_pods:
            continue
        if (end - begin).total_seconds() > GAP_SECONDS:
            end = begin + timedelta(seconds=point.window_seconds)
        if spans and spans[-1][1:] == (begin, limit):
            begin = spans.pop()[0]
        spans.append((begin, end, limit))
    return spans


async def decision_page(reads: Reads, decision_id: str, now: datetime) -> DecisionPageView:
    record = await existing_decision(reads, decision_id)
    return DecisionPageView(now, drawn(record), await chain(reads, decision_id))


def drawn(record: DecisionRecord) -> Waterfall:
    """The record's terms with a bar each."""
    rows = waterfall_of(record)
    low, high = waterfall_range(rows, record.result)
    bars = tuple(
        Bar(
            row,
            waterfall_bar(
                row.running_before, row.running_after, low, high, "gain" if row.value >= 0 else "loss", record.unit
            ),
        )
        for row in rows
    )
    total = waterfall_bar(0, record.result, low, high, "result", record.unit)
    return Waterfall(record, bars, total, adds_up(rows, record.result))


def _both(draw: Callable[[Frame], str], height: float, *, width: float = WHOLE, flat: bool = False) -> Picture:
    margins: Mapping[str, float] = {"top": 0, "bottom": 0} if flat else {}
    return Picture(
        wide=draw(Frame(width, height, **margins)),
        narrow=draw(Frame(360, max(height * 0.8, 18) if flat else height * 0.85, left=34, right=6, **margins)),
    )
