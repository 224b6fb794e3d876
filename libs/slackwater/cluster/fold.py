"""The fold: the newest event of each source of each node, in columns.

The state depends on the newest events alone, not on the order in which those of different sources or nodes came, nor on
repeated or old ones. Nothing is read but the event and what was folded before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from slackwater.cluster.intents import Intents
from slackwater.cluster.pods import Names, PodTable, Rowed, amounts, column
from slackwater.cluster.rows import UNKNOWN, Block, Interned, Rows
from slackwater.cluster.versions import Version, is_newer, micros, time_of, version_of
from slackwater.cluster.view import NONE, TIERS, Amounts, ClusterView, Flags, LivenessCode, NodeColumns, Source
from slackwater.events.envelope import Event, Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.measures import Distribution
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pod_columns import PodsByColumns, by_columns
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.events.window_columns import WindowedPods
from slackwater.events.windowed_usage import WindowedPod, WindowedUsage
from slackwater.model.nodes import Liveness, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources

MOST_REMOVED = 65_536
"""Nodes whose removal is remembered, so that their old events do not bring them back."""

_LIVENESS = {
    Liveness.FRESH: LivenessCode.FRESH,
    Liveness.STALE: LivenessCode.STALE,
    Liveness.LOST: LivenessCode.LOST,
}
_SOURCES: Mapping[type[Payload], Source] = {
    NodeDescribed: Source.DESCRIBED,
    UsageReported: Source.REPORTED,
    WaterlineCrossed: Source.REPORTED,
    PodsRostered: Source.ROSTERED,
    UsageWindowed: Source.WINDOWED,
    PeakPredicted: Source.PREDICTED,
    ResourcesOffered: Source.OFFERED,
    IntentDeclared: Source.DECLARED,
    IntentObserved: Source.OBSERVED,
    NodeLivenessChanged: Source.LIVENESS,
    NodeSchedulingChanged: Source.SCHEDULING,
}
EVENTS: tuple[type[Payload], ...] = (*_SOURCES, EvictionCompleted)
"""What the fold takes. Rosters and reports say which pods run, reports and windows what they use. A reader may leave
out reports: they are fresher, and many."""

_COLUMNS = (
    *("capacity", "reserved", "usage", "system_usage", "window_p95", "node_peak", "system_peak", "prod_peak"),
    *("prod_reclaimable", "batch", "mid", "window_usage", "window_system_usage"),
)
_AT = {name: 2 * place for place, name in enumerate(_COLUMNS)}
_TIER_PEAKS = 2 * len(_COLUMNS)
_POOL, _GENERATION, _DEGRADED, _LIVE, _CORDONED_UNTIL, _PENDING = range(
    _TIER_PEAKS + 2 * len(TIERS), _TIER_PEAKS + 2 * len(TIERS) + 6
)
_WIDTH = _PENDING + 1
_PRESSURE, _CONFIDENCE, _COLD = range(3)


@dataclass(slots=True)
class _Node:
    """One node's row, and the version of each source in it."""

    row: int
    versions: dict[tuple[Source, str], Version] = field(default_factory=dict)
    intents: Intents = field(default_factory=Intents)


class ClusterFold:
    """Takes events one at a time; `view` copies what they add up to."""

    def __init__(self) -> None:
        self.revision = 0
        self._nodes: dict[str, _Node] = {}
        self._rows = Rows()
        self._names: list[str] = []
        self._facts: list[NodeFacts | None] = []
        self._failed: list[Sequence[Pod]] = []
        self._pools = Interned()
        self._at = Block(len(Source), 0)
        self._numbers = Block(_WIDTH, UNKNOWN)
        self._ratios = Block(3, np.nan, np.float64)
        self._pods = PodTable()
        self._removed: dict[str, datetime] = {}
        self._appliers: Mapping[type[Payload], Callable[[_Node, Any], None]] = {
            NodeDescribed: self._apply_description,
            UsageReported: self._apply_report,
            WaterlineCrossed: self._apply_report,
            PodsRostered: self._apply_roster,
            UsageWindowed: self._apply_window,
            PeakPredicted: self._apply_peaks,
            ResourcesOffered: self._apply_offers,
            NodeLivenessChanged: self._apply_liveness,
            NodeSchedulingChanged: self._apply_scheduling,
        }

    def apply(self, event: Event[Any]) -> bool:
        """Whether the event changed the state: false for an old or repeated one, for one from before its node's
        removal, and for a type that is not in EVENTS."""
        data = event.data
        kind = type(data)
        if kind not in EVENTS:
            return False
        name = data.facts.name if kind is NodeDescribed else data.node
        removed_at = self._removed.get(name)
        if removed_at is not None and time_of(data) <= removed_at:
            return False
        node = self._nodes.get(name)
        if kind is EvictionCompleted:
            applied = self._apply_completion(node or self._add(name), data)
        else:
            source = _SOURCES[kind]
            part = data.writer if source in {Source.DECLARED, Source.OBSERVED} else ""
            key = Source.ROSTERED if source is Source.REPORTED else source, part
            version = version_of(data)
            if node is not None and not is_newer(data, version, node.versions.get(key)):
                return False
            node = node or self._add(name)
            node.versions[key] = version
            applied = True
            if source in {Source.DECLARED, Source.OBSERVED}:
                self._apply_intent(node, source, data)
            else:
                self._appliers[kind](node, data)
                self._at.array[node.row, source] = micros(time_of(data))
        self.revision += applied
        return applied

    def remove(self, name: str, at: datetime) -> bool:
        """Forgets a node and its pods. Events of the node from `at` or before are ignored from now on."""
        self._removed.pop(name, None)
        self._removed[name] = at
        while len(self._removed) > MOST_REMOVED:
            del self._removed[next(iter(self._removed))]
        node = self._nodes.pop(name, None)
        if node is None:
            return False
        self._pods.remove_node(node.row)
        self._release_pool(node.row)
        for block in (self._at, self._numbers, self._ratios):
            block.clear(node.row)
        self._names[node.row], self._facts[node.row], self._failed[node.row] = "", None, ()
        self._rows.free(node.row)
        self.revision += 1
        return True

    def view(self, now: datetime) -> ClusterView:
        """What is known at `now`: ages, cordons and evictions are reckoned from it."""
        count, now_micros = self._rows.count, micros(now)
        numbers, at, ratios = self._numbers.copy(count), self._at.copy(count), self._ratios.copy(count)

        def of(name: str) -> Amounts:
            return amounts(numbers[:, _AT[name] : _AT[name] + 2])

        names = tuple(self._names)
        capacity, reserved = of("capacity"), of("reserved")
        age = np.where(at == 0, np.inf, (now_micros - at) / 1e6)
        by_window: Flags = at[:, Source.WINDOWED] > at[:, Source.REPORTED]

        def measured(reported: str, windowed: str) -> Amounts:
            places = (slice(_AT[name], _AT[name] + 2) for name in (windowed, reported))
            return amounts(np.where(by_window[:, None], *(numbers[:, place] for place in places)))

        nodes = NodeColumns(
            names=names,
            facts=tuple(self._facts),
            rows={name: node.row for name, node in self._nodes.items()},
            exists=np.array([bool(name) for name in names], bool),
            incarnation=self._rows.incarnations(),
            pool=np.where(numbers[:, _POOL] == UNKNOWN, NONE, numbers[:, _POOL]),
            pools=self._pools.texts(),
            at=at,
            age_seconds=age,
            capacity=capacity,
            reserved=reserved,
            allocatable=Amounts(np.maximum(capacity.value - reserved.value, 0), capacity.known & reserved.known),
            usage=measured("usage", "window_usage"),
            system_usage=measured("system_usage", "window_system_usage"),
            prod_pressure=ratios[:, _PRESSURE],
            window_p95=of("window_p95"),
            node_peak=of("node_peak"),
            system_peak=of("system_peak"),
            prod_peak=of("prod_peak"),
            prod_reclaimable=of("prod_reclaimable"),
            tier_peaks=_by_tier(amounts(numbers[:, _TIER_PEAKS : _TIER_PEAKS + 2 * len(TIERS)])),
            confidence=ratios[:, _CONFIDENCE],
            cold_start_share=ratios[:, _COLD],
            batch=of("batch"),
            mid=of("mid"),
            offer_generation=column(numbers[:, _GENERATION]),
            offer_degraded=numbers[:, _DEGRADED] == 1,
            liveness=np.where(numbers[:, _LIVE] == UNKNOWN, NONE, numbers[:, _LIVE]).astype(np.int8),
            cordoned=numbers[:, _CORDONED_UNTIL] > now_micros,
            intent_pending=numbers[:, _PENDING] == 1,
            failed=tuple(self._failed),
        )
        view = ClusterView(now, self.revision, nodes, self._pods.columns(by_window, now_micros))
        _freeze(view)
        return view

    def _add(self, name: str) -> _Node:
        node = self._nodes[name] = _Node(self._rows.allocate())
        if node.row == len(self._names):
            self._names.append(name)
            self._facts.append(None)
            self._failed.append(())
        else:
            self._names[node.row] = name
        for block in (self._at, self._numbers, self._ratios):
            block.reserve(self._rows.count)
        return node

    def _set(self, node: _Node, **values: Resources) -> None:
        row = self._numbers.array[node.row]
        for name, value in values.items():
            place = _AT[name]
            row[place : place + 2] = value.cpu_milli, value.memory_bytes

    def _release_pool(self, row: int) -> None:
        pool = int(self._numbers.array[row, _POOL])
        if pool != UNKNOWN:
            self._pools.release(pool)

    def _apply_description(self, node: _Node, data: NodeDescribed) -> None:
        facts = data.facts
        self._release_pool(node.row)
        self._numbers.array[node.row, _POOL] = self._pools.acquire(facts.pool)
        self._facts[node.row] = facts
        self._set(node, capacity=facts.capacity, reserved=facts.reserved)

    def _apply_report(self, node: _Node, data: UsageReported) -> None:
        numbers = self._numbers.array[node.row]
        numbers[_AT["usage"] : _AT["usage"] + 2] = _averages(data.node_usage.cpu_milli, data.node_usage.memory_bytes)
        system = data.system_usage
        numbers[_AT["system_usage"] : _AT["system_usage"] + 2] = (
            (UNKNOWN, UNKNOWN) if system is None else _averages(system.cpu_milli, system.memory_bytes)
        )
        pressure = data.prod_pressure.cpu_some_avg
        self._ratios.array[node.row, _PRESSURE] = np.nan if pressure is None else pressure
        self._at.array[node.row, Source.ROSTERED] = micros(data.sampled_at)
        pods = by_columns(data.pods)
        rows = self._set_running(node, pods.described, data.failed_pods)
        self._pods.write(Names.REPORT, rows, _report_block(pods))

    def _apply_roster(self, node: _Node, data: PodsRostered) -> None:
        self._set_running(node, data.roster.pods, data.roster.failed_pods)

    def _set_running(self, node: _Node, pods: Sequence[Pod], failed: Sequence[Pod]) -> Rowed:
        """Returns the rows of the pods that run from now on."""
        self._failed[node.row] = failed
        rows = self._pods.replace(Names.REPORT, node.row, [pod.uid for pod in pods])
        self._pods.describe(rows, pods)
        return rows

    def _apply_window(self, node: _Node, data: UsageWindowed) -> None:
        numbers = self._numbers.array[node.row]
        numbers[_AT["window_p95"] : _AT["window_p95"] + 2] = _windowed(data.node_usage)[2:]
        numbers[_AT["window_usage"] : _AT["window_usage"] + 2] = _windowed(data.node_usage)[:2]
        numbers[_AT["window_system_usage"] : _AT["window_system_usage"] + 2] = _windowed(data.system_usage)[:2]
        uids, block = _window_block(data.pods)
        rows = self._pods.replace(Names.WINDOW, node.row, uids)
        self._pods.write(Names.WINDOW, rows, block)

    def _apply_peaks(self, node: _Node, data: PeakPredicted) -> None:
        self._set(
            node,
            node_peak=data.node_peak,
            system_peak=data.system_peak,
            prod_peak=data.prod_peak,
            prod_reclaimable=data.prod_reclaimable,
        )
        tiers = [data.tier_peaks.get(tier) for tier in TIERS]
        self._numbers.array[node.row, _TIER_PEAKS : _TIER_PEAKS + 2 * len(TIERS)] = [
            part
            for peak in tiers
            for part in ((UNKNOWN, UNKNOWN) if peak is None else (peak.cpu_milli, peak.memory_bytes))
        ]
        self._ratios.array[node.row, _CONFIDENCE : _COLD + 1] = data.confidence, data.cold_start_share
        rows = self._pods.replace(Names.PEAK, node.row, [pod.uid for pod in data.pods])
        block = [(pod.peak.cpu_milli, pod.peak.memory_bytes, pod.cold_start) for pod in data.pods]
        self._pods.write(Names.PEAK, rows, np.array(block, np.int64).reshape(-1, 3))

    def _apply_offers(self, node: _Node, data: ResourcesOffered) -> None:
        self._set(node, batch=data.batch, mid=data.mid)
        self._numbers.array[node.row, [_GENERATION, _DEGRADED]] = data.generation, data.degraded is not None

    def _apply_liveness(self, node: _Node, data: NodeLivenessChanged) -> None:
        self._numbers.array[node.row, _LIVE] = _LIVENESS[data.liveness]

    def _apply_scheduling(self, node: _Node, data: NodeSchedulingChanged) -> None:
        until = data.valid_until if data.closed else None
        self._numbers.array[node.row, _CORDONED_UNTIL] = UNKNOWN if until is None else micros(until)

    def _apply_completion(self, node: _Node, data: EvictionCompleted) -> bool:
        applied = node.intents.complete(data)
        if applied:
            self._write_intents(node)
        return applied

    def _apply_intent(self, node: _Node, source: Source, data: IntentDeclared | IntentObserved) -> None:
        if isinstance(data, IntentDeclared):
            self._at.array[node.row, source] = node.intents.declare(data)
        else:
            self._at.array[node.row, source] = node.intents.observe(data)
        self._write_intents(node)

    def _write_intents(self, node: _Node) -> None:
        self._numbers.array[node.row, _PENDING] = node.intents.is_pending
        pods = node.intents.pods()
        rows = self._pods.replace(Names.INTENT, node.row, list(pods))
        self._pods.write(Names.INTENT, rows, np.array(list(pods.values()), np.int64).reshape(-1, 3))


def _averages(cpu: Distribution, memory: Distribution) -> tuple[int, int]:
    return cpu.avg if cpu.count else UNKNOWN, memory.avg if memory.count else UNKNOWN


def _windowed(usage: WindowedUsage | None) -> tuple[int, int, int, int]:
    """Averages and 95th percentiles."""
    if usage is None or not usage.samples:
        return UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
    return usage.cpu_avg_milli, usage.memory_avg_bytes, usage.cpu_p95_milli, usage.memory_p95_bytes


def _window_block(pods: Sequence[WindowedPod]) -> tuple[Sequence[str], np.ndarray[Any, np.dtype[np.int64]]]:
    """The uids of pods, and average and 95th percentile of CPU and memory of each."""
    if not isinstance(pods, WindowedPods) or pods.is_partial:
        rows = [_windowed(pod.usage) for pod in pods]
        return [pod.pod.uid for pod in pods], np.array(rows, np.int64).reshape(-1, 4)
    cpu, _, cpu_p95, _, memory, _, memory_p95, _, samples = pods.usage()
    block = np.array([cpu, memory, cpu_p95, memory_p95], np.int64).T
    return pods.columns.uids, np.where(np.array(samples, np.int64)[:, None] > 0, block, UNKNOWN)


def _report_block(pods: PodsByColumns) -> np.ndarray[Any, np.dtype[np.int64]]:
    """CPU, memory and CPU limit of each pod."""
    limits = [NONE if limit is None else limit for limit in pods.cpu_limit_milli]
    cpu, memory = (np.where(column[:, -1] > 0, column[:, 0], UNKNOWN) for column in (pods.cpu, pods.memory))
    return np.column_stack([cpu, memory, np.array(limits, np.int64)])


def _by_tier(peaks: Amounts) -> Amounts:
    shape = (-1, len(TIERS), 2)
    return Amounts(peaks.value.reshape(shape), peaks.known.reshape(shape))


def _freeze(value: Any) -> None:
    """Makes every array below a record read-only."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    else:
        for name in getattr(value, "__dataclass_fields__", ()):
            if name not in {"facts", "described", "failed", "rows"}:
                _freeze(getattr(value, name))
