"""A node's page: usage by tier against the waterlines with what was done, forecast, offer, pods, and the agent."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.console.domain.drawing.level_chart import GAP_SECONDS, LevelSample, Mark, level_chart
from slackwater.console.domain.drawing.line_charts import bounded, forecast_chart, limit_lane, pressure_chart
from slackwater.console.domain.drawing.stacks import Layer, water_level
from slackwater.console.domain.fleet import state_of
from slackwater.console.domain.views import (
    DecisionFilter,
    DecisionSummary,
    ForecastView,
    NodeView,
    OfferView,
    PodView,
    UsagePoint,
)
from slackwater.console.ports import Reads
from slackwater.console.usecases.explain import existing_node
from slackwater.console.usecases.pictures import (
    ACTIONS,
    HALF,
    SPAN,
    Picture,
    Waterfall,
    begin_of,
    both,
    drawn,
    feed,
    used_by_layer,
)
from slackwater.model.quantities import Resources

TIER_ORDER = {"prod": 0, "mid": 1, "batch": 2, "free": 3}


@dataclass(frozen=True, slots=True)
class NodePage:
    """`/nodes/{name}`."""

    now: datetime
    node: NodeView
    state: str
    layers: tuple[Layer, ...]
    usage: Picture
    pressure: Picture
    lane: Picture | None
    forecast: Picture
    latest_forecast: ForecastView | None
    waterfall: Waterfall | None
    pods: Sequence[PodView]
    decisions: Sequence[DecisionSummary]


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
        state=state_of(node, now),
        layers=water_level(
            used_by_layer(node.usage) if node.usage else {},
            node.offer.batch.cpu_milli if node.offer else None,
            capacity,
        ),
        usage=both(lambda frame: level_chart(frame, since, now, samples, capacity, marks), height=240),
        pressure=both(lambda frame: pressure_chart(frame, since, now, pressures, waterline, marks), height=150),
        lane=both(lambda frame: limit_lane(frame, since, now, limits), height=22, flat=True) if limits else None,
        forecast=both(lambda frame: forecast_chart(frame, since, now, prod, expected), height=170, width=HALF),
        latest_forecast=forecasts[-1] if forecasts else None,
        waterfall=drawn(record) if record else None,
        pods=pods,
        decisions=await feed(reads, name),
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
