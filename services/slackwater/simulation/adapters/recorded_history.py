"""Reads recorded history from an installation's API: usage windows from ingestion, predictions from the console.

Colocation's own functions build the snapshots. Not recorded are peaks per pod (for prod the combined peak is used, a
pod of mid counts with its request) and the time when a node was declared lost.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from urllib.parse import quote

import numpy as np

from slackwater.model.errors import NotFound
from slackwater.model.plurals import counted
from slackwater.model.quantities import Resources
from slackwater.offers.closed_loop import Period
from slackwater.offers.fleet import fleet_of
from slackwater.offers.node import (
    InputSource,
    KnownPeak,
    MeasuredUsage,
    NodeState,
    with_description,
    with_peaks,
    with_usage,
)
from slackwater.offers.node_notes import notes_of
from slackwater.offers.pod_set import ListedPod, PodMeasurement, pod_set
from slackwater.offers.snapshot import LOWER_TIERS, HostApp, NodeSnapshot, Zone
from slackwater.offers.snapshots import snapshot_of
from slackwater.offers.strategy import Strategy
from slackwater.offers.strategy_layers import NodeOverrides
from slackwater.simulation.adapters.api_answers import ApiReader, Said, pages_of, resources_of, time_of, windows_of
from slackwater.simulation.ports import SimulationProgress

SILENT_SECONDS = 900.0
"""A node without a report for this long counts as absent, because its usage is unknown."""
_ABSENT = NodeSnapshot(Resources(), Resources(), (), Resources())


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """One window of a node, as colocation receives it. `prod` is the usage beside batch: pods and host applications of
    prod and mid, and the system."""

    number: int
    measured: MeasuredUsage
    prod: Resources


@dataclass(frozen=True, slots=True)
class RecordedForecast:
    """A predicted peak of all prod pods, based on the windows up to `number`."""

    at: datetime
    number: int
    prod_peak: Resources


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One node with its windows and predictions, both in order of time."""

    described: NodeState
    windows: Sequence[RecordedWindow]
    forecasts: Sequence[RecordedForecast]


@dataclass(frozen=True)
class RecordedHistory:
    """See slackwater.simulation.ports.History."""

    title: str
    records: Sequence[NodeRecord]
    start: int
    steps: int
    period_seconds: float
    strategy: Strategy
    """The strategy in force. Its maximum age of predictions applies to all compared strategies."""
    notes: Sequence[str]
    first: int = 0

    @property
    def nodes(self) -> Sequence[str]:
        return [record.described.node for record in self.records]

    @property
    def start_seconds(self) -> float:
        return float(self.start)

    @cached_property
    def _ends(self) -> Sequence[Sequence[int]]:
        return [[window.measured.end for window in record.windows] for record in self.records]

    @cached_property
    def _forecast_times(self) -> Sequence[Sequence[float]]:
        return [[forecast.at.timestamp() for forecast in record.forecasts] for record in self.records]

    @cached_property
    def _patient(self) -> Strategy:
        """The strategy that builds the snapshots: its settle time is unlimited, so that snapshots contain the age of
        every pod and each compared strategy applies its own settle time."""
        return replace(self.strategy, bind_settle_seconds=math.inf)

    def periods(self) -> Iterator[Period]:
        """Yields the state known at the end of each period. Usage of prod is that of the newest window."""
        for step in range(1, self.steps + 1):
            now = self.start + step * self.period_seconds
            found = [self._at(place, now) for place in range(len(self.records))]
            yield Period(
                prod=np.array([[prod.cpu_milli, prod.memory_bytes] for _, prod, _ in found], np.int64).reshape(-1, 2),
                known=fleet_of([snapshot for snapshot, _, _ in found]),
                end=np.array([end for _, _, end in found], np.int64),
            )

    def _at(self, place: int, now: float) -> tuple[NodeSnapshot, Resources, int]:
        record = self.records[place]
        newest = bisect_right(self._ends[place], now) - 1
        if newest < 0 or now - self._ends[place][newest] > SILENT_SECONDS:
            return _ABSENT, Resources(), 0
        window = record.windows[newest]
        end = datetime.fromtimestamp(window.measured.end, UTC)
        state = with_usage(record.described, window.measured, InputSource("recorded", end))
        told = bisect_right(self._forecast_times[place], now) - 1
        if told >= 0:
            state = _predicted(state, record, record.forecasts[told])
        snapshot = snapshot_of(state, self._patient, datetime.fromtimestamp(now, UTC))
        return snapshot or _ABSENT, window.prod, window.measured.end


def _predicted(state: NodeState, record: NodeRecord, forecast: RecordedForecast) -> NodeState:
    """Adds the prediction, which covers the prod pods of the last window that it is based on."""
    place = bisect_right(record.windows, forecast.number, key=lambda window: window.number) - 1
    known = record.windows[place].measured.pods if place >= 0 else ()
    peaks = {pod.uid: KnownPeak(Resources(), cold=False) for pod in known if pod.tier != "mid"}
    return with_peaks(state, peaks, InputSource("recorded", forecast.at), forecast.prod_peak)


def recorded(
    reads: ApiReader, since_seconds: int, step_seconds: int | None, now: datetime, watch: SimulationProgress
) -> RecordedHistory:
    """Reads the history of all known nodes. `step_seconds` None: one window.

    Raises NotFound if nothing was recorded, and what the API raises.
    """
    since = now - timedelta(seconds=since_seconds)
    nodes = [node for node in pages_of(reads, "/v1/nodes", {}) if node.get("facts")]
    watch.begin("reading recorded usage", len(nodes))
    records, seconds = [], 0
    for node in nodes:
        windows, of_node = _thinned(windows_of(reads, node["name"], since, now), step_seconds or 0)
        seconds = max(seconds, of_node)
        forecasts = pages_of(
            reads, f"/v1/nodes/{quote(node['name'], safe='')}/forecast", {"since": since.isoformat(), "limit": 1000}
        )
        records.append(_record(node, windows, list(forecasts)))
        watch.advance(1)
    with_usage_ = [record for record in records if record.windows]
    if not with_usage_:
        raise NotFound(
            f"no usage has been recorded since {since:%Y-%m-%d %H:%M} UTC; usage windows are kept for "
            "SLACKWATER_INGESTION_RETENTION_DAYS days; let it run for a while, or give --trace"
        )
    lag = seconds // 2  # by then the prediction that follows a window has been published
    step = seconds if step_seconds is None else max(step_seconds, seconds)
    start = min(record.windows[0].measured.end for record in with_usage_) - step + lag
    last = max(record.windows[-1].measured.end for record in with_usage_)
    return RecordedHistory(
        title="recorded here",
        records=with_usage_,
        start=start,
        steps=max(1, (last + lag - start) // step),
        period_seconds=float(step),
        strategy=Strategy(),
        notes=list(_notes(records, with_usage_, start, seconds)),
    )


def _notes(
    records: Sequence[NodeRecord], with_windows: Sequence[NodeRecord], start: int, seconds: int
) -> Iterator[str]:
    yield f"recorded windows of {seconds} s (p95 of every pod) and the peaks predicted at the time"
    if len(with_windows) < len(records):
        without = len(records) - len(with_windows)
        yield f"{counted(without, 'known node has', 'known nodes have')} no recorded usage in this time"
    told = [record.forecasts[0].at.timestamp() for record in with_windows if record.forecasts]
    if not told:
        yield "no predictions were recorded in this time: requests are used instead"
    elif min(told) - start > SILENT_SECONDS:
        hours = (min(told) - start) / 3600
        yield f"predictions are kept for a day: for the first {hours:.1f} hours requests are used instead"


def _record(node: Said, windows: Sequence[RecordedWindow], told: Sequence[Said]) -> NodeRecord:
    facts = node["facts"]
    zones = tuple(Zone(each["name"], resources_of(each["capacity"])) for each in facts.get("numa", ()))
    capacity, annotations = resources_of(facts["capacity"]), facts.get("annotations", {})
    described = with_description(
        NodeState(node["name"]),
        capacity,
        resources_of(facts["reserved"]),
        InputSource("recorded", datetime.min.replace(tzinfo=UTC)),
        facts["pool"],
        zones,
        NodeOverrides(facts.get("labels", {}), annotations),
        notes_of(annotations, capacity),
    )
    forecasts = [
        RecordedForecast(time_of(each["predicted_at"]), int(each["window_number"]), resources_of(each["prod_peak"]))
        for each in told
    ]
    return NodeRecord(described, windows, sorted(forecasts, key=lambda forecast: (forecast.at, forecast.number)))


def _thinned(told: Iterable[Said], step: int) -> tuple[list[RecordedWindow], int]:
    """Returns the last window of each step, with the maximum usage of prod in the step, and the length of a window."""
    windows: list[RecordedWindow] = []
    seconds = 0
    for said in told:
        seconds, window = int(said["seconds"]), _window(said)
        if windows and step > seconds and windows[-1].measured.end // step == window.measured.end // step:
            window = replace(window, prod=window.prod.larger_of(windows.pop().prod))
        windows.append(window)
    return windows, seconds


def _window(said: Said) -> RecordedWindow:
    end = time_of(said["start"]) + timedelta(seconds=int(said["seconds"]))
    pods = [pod for pod in said["pods"] if pod["tier"] not in LOWER_TIERS]
    listed = [
        ListedPod(pod["uid"], pod["tier"], pod["qos"], resources_of(pod["request"]), time_of(pod["started_at"]))
        for pod in pods
    ]
    measured = [PodMeasurement(pod["uid"], resources_of(pod["usage"])) for pod in pods if pod["usage"] is not None]
    system = None if said["system"] is None else resources_of(said["system"])
    apps = tuple(HostApp(app["name"], app["tier"], resources_of(app["usage"])) for app in said.get("host_apps", ()))
    found = MeasuredUsage(
        pods=pod_set(listed, end, measured, end, end).pods,
        node_usage=resources_of(said["usage"]),
        system=system,
        end=int(end.timestamp()),
        is_whole=int(said["gaps"]) <= int(said["reports"]),
        host_apps=apps,
    )
    held = [*(each.usage for each in measured), *(app.usage for app in apps if app.tier not in LOWER_TIERS)]
    prod = sum(held, system or Resources())
    return RecordedWindow(int(said["number"]), found, prod)
