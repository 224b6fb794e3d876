"""Replays a trace with pods that are moved: by nothing, by thresholds alone, and by each profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.descheduling.low_node_load import RoundEnd
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.thresholds import ThresholdPair, amount_of
from slackwater.model.errors import InvalidInput
from slackwater.simulation.domain.move_policies import (
    RESOURCES,
    Ints,
    MovePolicy,
    MoveScene,
    ProfilePolicy,
    ReplayedCluster,
    Rows,
    StillPolicy,
    ThresholdPolicy,
    node_sums,
)
from slackwater.simulation.domain.move_tally import MoveTally, TargetTally
from slackwater.simulation.ports import SimulationProgress
from slackwater.simulation.usecases.placed_usage import PLACES, Placed
from slackwater.traces.trace import CELL_SECONDS, DAY_CELLS


@dataclass(frozen=True, slots=True)
class MovesReplayed:
    """One policy's result."""

    name: str
    tally: MoveTally
    refusals: Mapping[str, int]
    ends: Mapping[tuple[str, RoundEnd], int]
    """Cycles by pool of lowNodeLoad and why it proposed nothing more."""


@dataclass(frozen=True, slots=True)
class MoveSimulation:
    """All results; the first is the baseline."""

    title: str
    nodes: int
    pods: int
    hours: float
    high: Mapping[str, float]
    """What is hot, in percent."""
    low: Mapping[str, float]
    """Of what a target must not be above any, in percent."""
    targets: TargetTally
    notes: Sequence[str]
    replayed: Sequence[MovesReplayed]


@dataclass(frozen=True, slots=True)
class _Usage:
    """A trace with its first placement; arrays by cell and pod."""

    cluster: ReplayedCluster
    first_at: Rows
    there: np.ndarray
    usage: np.ndarray
    start_seconds: int

    def peak(self, cell: int) -> Ints:
        """Returns (pods, 2) the most of the last day."""
        most: Ints = self.usage[max(0, cell - DAY_CELLS + 1) : cell + 1].max(axis=0)
        return most


def replay_moves(
    placed: Placed, span: tuple[int, int], profiles: Sequence[tuple[str, DeclaredProfile]], watch: SimulationProgress
) -> MoveSimulation:
    """Replays the cells of the span. The first profile's first pool says what a hotspot is, and has the thresholds of
    the plain strategy. Raises InvalidInput for a profile without absolute thresholds."""
    pair = _thresholds(*profiles[0])
    trace = _usage_of(placed)
    low, high = (_amounts(percents, trace.cluster.capacity) for percents in (pair.low, pair.high))
    policies: list[MovePolicy] = [StillPolicy(), ThresholdPolicy(trace.cluster, low, high)]
    policies += [ProfilePolicy(name, profile, trace.cluster) for name, profile in profiles]
    replayed = []
    for policy in policies:
        watch.begin(policy.name, span[1] - span[0])
        tally = _run(trace, span, policy, high, watch)
        refusals = dict(policy.refusals.most_common()) if isinstance(policy, ProfilePolicy) else {}
        ends = dict(policy.ends.most_common()) if isinstance(policy, ProfilePolicy) else {}
        replayed.append(MovesReplayed(policy.name, tally, refusals, ends))
    return MoveSimulation(
        placed.title,
        len(placed.nodes),
        len(trace.cluster.pods),
        (span[1] - span[0]) * CELL_SECONDS / 3600,
        _set(pair.high),
        _set(pair.low),
        _targets(trace, span, low),
        tuple(_notes(placed)),
        replayed,
    )


def _run(trace: _Usage, span: tuple[int, int], policy: MovePolicy, high: Ints, watch: SimulationProgress) -> MoveTally:
    tally, at = MoveTally(CELL_SECONDS / 60), trace.first_at.copy()
    cluster, replicas = trace.cluster, Counter(trace.cluster.workloads)
    for cell in range(*span):
        watch.advance(1)
        if not trace.there[cell].any():
            continue  # nothing was recorded
        now_s = float(trace.start_seconds + (cell + 1) * CELL_SECONDS)
        scene = MoveScene(now_s, at, trace.there[cell], trace.usage[cell], trace.peak(cell))
        tally.record_load(node_sums(at, scene.there, scene.usage, len(cluster.nodes)), cluster.capacity, high)
        for pod, target in policy.moves(scene):
            workload = cluster.workloads[pod]
            tally.record_move(pod, workload, int(at[pod]), target, now_s, replicas[workload])
            at[pod] = target
    return tally


def _targets(trace: _Usage, span: tuple[int, int], low: Ints) -> TargetTally:
    """Returns how often there is a node that pods could be moved to, with every pod where it is at first."""
    tally, nodes = TargetTally(), len(trace.cluster.nodes)
    for cell in range(*span):
        there = trace.there[cell]
        if there.any():
            is_open = np.ones(nodes, bool)
            is_open[trace.first_at[~there]] = False
            load = node_sums(trace.first_at, there, trace.usage[cell], nodes)
            tally.record_load(load, trace.cluster.capacity, low, is_open)
    return tally


def _set(percents: Mapping[str, float]) -> dict[str, float]:
    """Returns the thresholds that limit anything."""
    return {name: percent for name, percent in percents.items() if percent < 100}


def _usage_of(placed: Placed) -> _Usage:
    trace = placed.any_trace
    usage = np.zeros((trace.cells, trace.series, len(PLACES)), np.int64)
    limits = np.zeros((trace.series, len(PLACES)), np.int64)
    for resource, amounts in placed.traces.items():
        usage[:, :, PLACES[resource]] = np.ceil(amounts.usage)
        limits[:, PLACES[resource]] = np.ceil(amounts.limit.max(axis=0))
    first_at = np.zeros(trace.series, np.intp)
    first_at[placed.stays.series[::-1]] = placed.stays.machine[::-1]  # the first stay of each series holds
    names = [trace.workloads[number] if trace.workloads else f"w{number}" for number in trace.workload.tolist()]
    cluster = ReplayedCluster(placed.nodes, placed.capacity, trace.names, names, limits)
    return _Usage(cluster, first_at, trace.present, usage, trace.start_seconds)


def _notes(placed: Placed) -> Sequence[str]:
    """Notes of the placement, but for nodes without samples, which are not absent here."""
    kept = [note for note in placed.notes if "absent" not in note]
    without = "a pod without a sample uses nothing, and its node takes no pods; times without any sample are left out"
    empty = () if placed.there is None else (without,)
    return [*kept, f"{len(placed.stays.series) / max(len(placed.nodes), 1):.1f} pods on a node at first", *empty]


def _thresholds(name: str, profile: DeclaredProfile) -> ThresholdPair:
    pools = () if profile.low_node_load is None else profile.low_node_load.pools
    if not pools or pools[0].use_deviation:
        raise InvalidInput(
            f"{name}: spec.lowNodeLoad.nodePools: its first pool needs thresholds that are not deviations: they say "
            "what a hotspot is",
            field="spec.lowNodeLoad",
        )
    return ThresholdPair(pools[0].low, pools[0].high).completed(deviation=False)


def _amounts(percents: Mapping[str, float], capacity: Ints) -> Ints:
    """A resource without a threshold has the whole capacity."""
    columns = [
        [amount_of(percents.get(name, 100.0), int(whole)) for whole in capacity[:, place]]
        for place, name in enumerate(RESOURCES)
    ]
    return np.array(columns, np.int64).T
