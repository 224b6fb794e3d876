"""A node's page: usage by tier against the waterlines with the actions, forecast, offer, pods, and the agent."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from slackwater.bus.admin.broker_admin import BrokerAdmin
from slackwater.charts.level_chart import GAP_SECONDS, LevelSample, level_chart
from slackwater.charts.line_charts import bounded, forecast_chart, limit_lane, pressure_chart
from slackwater.charts.marks import ChartMark, ListHref
from slackwater.charts.stacks import StackLayer, water_level
from slackwater.console.domain.agent import AgentLine, agent_lines
from slackwater.console.domain.conditions import as_of, closing, duplicate, left_out
from slackwater.console.domain.episodes import DecisionRow
from slackwater.console.domain.fleet import state_of
from slackwater.console.domain.marks import WaterlineMark as Waterline
from slackwater.console.domain.marks import cpu_lines, marks_of, memory_lines
from slackwater.console.domain.views import (
    CalibrationView,
    DecisionFilter,
    ForecastView,
    IntentView,
    NodeCondition,
    NodeView,
    OfferView,
    PodView,
    UsagePoint,
)
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.explain import existing_node
from slackwater.console.usecases.last_intent import last_intent
from slackwater.console.usecases.offer_part import OfferPart, OfferQuery, offer_part
from slackwater.console.usecases.pictures import (
    ACTIONS,
    HALF,
    SPAN,
    Picture,
    begin_of,
    both,
    feed,
    memory_by_layer,
    steps_href,
    used_by_layer,
)
from slackwater.model.errors import Unavailable
from slackwater.model.quantities import Resources


@dataclass(frozen=True, slots=True)
class ChartResource:
    """A resource on the chart; `of` is an amount of it in thousandths of a core or of a GiB."""

    resource: str
    word: str
    title: str
    of: Callable[[Resources], float]


SHOWN = (
    ChartResource("cpu", "CPU", "CPU, cores", lambda amount: float(amount.cpu_milli)),
    ChartResource("memory", "memory", "Memory, GiB", lambda amount: amount.memory_bytes / 2**30 * 1000),
)
TIER_ORDER = {"prod": 0, "mid": 1, "batch": 2, "free": 3}


@dataclass(frozen=True, slots=True)
class ForecastPart:
    """Forecast against actual usage for one resource: `held` is the share (0..1) of the shown samples at or below the
    expected peak; None if nothing can be compared.
    """

    title: str
    subject: str
    picture: Picture
    held: float | None
    calibration: CalibrationView | None


@dataclass(frozen=True, slots=True)
class NodePage:
    """`/nodes/{name}`."""

    now: datetime
    node: NodeView
    state: str
    layers: tuple[StackLayer, ...]
    usage: Picture
    memory: Picture
    memory_layers: tuple[StackLayer, ...]
    pressure: Picture
    lane: Picture | None
    forecasts: tuple[ForecastPart, ...]
    latest_forecast: ForecastView | None
    offers: OfferPart
    pods: Sequence[PodView]
    decisions: Sequence[DecisionRow]
    agent: tuple[AgentLine, ...]
    waterline: float | None
    closing: NodeCondition | None
    """The condition that keeps new pods away now."""
    duplicate: NodeCondition | None
    """The condition that a second agent reports as the node."""
    left_out: NodeCondition | None
    """The condition that values are not reported as they are."""


def offered_over_time(offers: Sequence[OfferView]) -> list[tuple[datetime, int]]:
    """The sum of all nodes' offers after each change, in milli-cores."""
    current: dict[str, int] = {}
    totals = []
    for offer in offers:
        current[offer.node] = offer.batch.cpu_milli
        totals.append((offer.offered_at, sum(current.values())))
    return totals


def _at(steps: Sequence[tuple[datetime, int]], moment: datetime) -> int | None:
    found = None
    for at, value in steps:
        if at > moment:
            break
        found = value
    return found


async def node_page(
    reads: ReadQueries, desk: BrokerAdmin, name: str, now: datetime, look: OfferQuery | None = None
) -> NodePage:
    node = as_of(await existing_node(reads, name), now)
    intent, broker = await _intent(desk, name)
    since = now - SPAN
    points = await reads.usage(name, since, now)
    since = begin_of(now, [point.sampled_at for point in points])
    stored = await reads.offers(name, since, now)
    offers = offered_over_time(stored)
    acted = await reads.decisions(DecisionFilter(node=name, kinds=ACTIONS, since=since, limit=200))
    forecasts = await reads.forecasts(name, since, now)
    capacity = node.facts.capacity.cpu_milli if node.facts else 0
    marks, listed = marks_of(acted), decisions_of(name)
    samples = [LevelSample(p.sampled_at, used_by_layer(p), _at(offers, p.sampled_at)) for p in points]
    waterlines = intent.waterlines if intent else {}
    waterline = waterlines.get("prod_cpu_pressure")  # of the rules in force: an effect may be of a deleted policy
    memory = memory_lines(waterlines, node.facts.capacity.memory_bytes if node.facts else 0)
    pressures = [(p.sampled_at, p.prod_pressure) for p in points if p.prod_pressure is not None]
    limits = limit_spans(points, now)
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
        memory_layers=_memory_layers(node),
        usage=both(
            lambda frame: level_chart(
                frame,
                since,
                now,
                samples,
                capacity,
                marks,
                waterlines=_named(cpu_lines(waterlines, capacity)),
                list_href=listed,
            ),
            height=240,
        ),
        memory=_memory_timeline(node, points, (since, now), marks, memory, _memory_offered(stored)),
        pressure=both(lambda frame: pressure_chart(frame, since, now, pressures, waterline, marks, listed), height=150),
        lane=both(lambda frame: limit_lane(frame, since, now, limits), height=22, flat=True) if limits else None,
        forecasts=forecast_parts(points, forecasts, since, now),
        latest_forecast=forecasts[-1] if forecasts else None,
        offers=await offer_part(reads, name, now, look or OfferQuery()),
        pods=pods,
        decisions=await feed(reads, name, ACTIONS),
        agent=agent_lines(node, intent, await reads.last_observation(name), broker=broker),
        waterline=waterline,
        closing=closing(node),
        duplicate=duplicate(node),
        left_out=left_out(node),
    )


def _memory_timeline(
    node: NodeView,
    points: Sequence[UsagePoint],
    span: tuple[datetime, datetime],
    marks: Sequence[ChartMark],
    lines: Sequence[Waterline],
    offers: Sequence[tuple[datetime, int]],
) -> Picture:
    """The timeline in thousandths of a GiB, as the chart of CPU is in thousandths of a core."""
    samples = [LevelSample(p.sampled_at, memory_by_layer(p), _at(offers, p.sampled_at)) for p in points]
    capacity = round(node.facts.capacity.memory_bytes * 1000 / 2**30) if node.facts else 0
    label = "Memory by tier over time"
    return both(
        lambda frame: level_chart(
            frame,
            *span,
            samples,
            capacity,
            marks,
            label=label,
            waterlines=_named(lines),
            unit="GiB",
            list_href=decisions_of(node.name),
        ),
        height=150,
    )


def _memory_offered(offers: Sequence[OfferView]) -> list[tuple[datetime, int]]:
    """A node's batch memory after each change, in thousandths of a GiB."""
    return [(offer.offered_at, round(offer.batch.memory_bytes * 1000 / 2**30)) for offer in offers]


def _memory_layers(node: NodeView) -> tuple[StackLayer, ...]:
    """The memory of the legend, in bytes."""
    used = {name: part.memory_bytes for name, part in node.usage.tiers.items()} if node.usage else {}
    if node.usage:
        used["system"] = node.usage.beside_pods.memory_bytes
    capacity = node.facts.capacity.memory_bytes if node.facts else 0
    return water_level(used, node.offer.batch.memory_bytes if node.offer else None, capacity)


def decisions_of(node: str) -> ListHref:
    """The address of the list of a node's decisions between two times: whole seconds that contain them."""

    def href(first: datetime, last: datetime) -> str:
        return steps_href(node, first, last)

    return href


def _named(lines: Sequence[Waterline]) -> list[tuple[str, int]]:
    return [(line.name, line.amount) for line in lines]


async def _intent(desk: BrokerAdmin, node: str) -> tuple[IntentView | None, bool]:
    """The last intent, and whether the broker answered."""
    try:
        return await last_intent(desk, node), True
    except Unavailable:
        return None, False


def forecast_parts(
    points: Sequence[UsagePoint], forecasts: Sequence[ForecastView], since: datetime, now: datetime
) -> tuple[ForecastPart, ...]:
    """CPU, then memory: prod's usage against its expected peak, and the accuracy of the forecast in the pool."""
    calibrations = forecasts[-1].calibrations if forecasts else {}
    return tuple(_part(each, points, forecasts, since, now, calibrations.get(each.resource)) for each in SHOWN)


def _part(
    shown: ChartResource,
    points: Sequence[UsagePoint],
    forecasts: Sequence[ForecastView],
    since: datetime,
    now: datetime,
    calibration: CalibrationView | None,
) -> ForecastPart:
    used = [(point.sampled_at, shown.of(point.tiers.get("prod", Resources()))) for point in points]
    expected = bounded([(forecast.predicted_at, shown.of(forecast.prod_peak)) for forecast in forecasts], since)
    picture = both(
        lambda frame: forecast_chart(frame, since, now, used, expected, resource=shown.word), height=150, width=HALF
    )
    subject = f"prod-{shown.resource}-peak"
    return ForecastPart(shown.title, subject, picture, held_share(used, expected), calibration)


def held_share(actual: Sequence[tuple[datetime, float]], expected: Sequence[tuple[datetime, float]]) -> float | None:
    """The share of samples (0..1) at or below the peak expected then; None if nothing can be compared."""
    held = []
    for at, value in actual:
        in_force = [peak for since, peak in expected if since <= at]
        if in_force:
            held.append(value <= in_force[-1])
    return sum(held) / len(held) if held else None


def limit_spans(points: Sequence[UsagePoint], until: datetime) -> list[tuple[datetime, datetime, int]]:
    """The spans in which batch was limited, and the limit, from the reports.

    A limit lasts until the next report. Where reports are missing the limit is unknown, so the span ends there.
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
