"""The result as JSON, schema `slackwater.move-simulation/1` (docs/how-to/simulate-moves.md); only added to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field

from slackwater.descheduling.low_node_load import RoundEnd
from slackwater.simulation.domain.move_policies import RESOURCES
from slackwater.simulation.domain.move_tally import bucketed
from slackwater.simulation.edge.simulation_report import ReportPart
from slackwater.simulation.usecases.replay_moves import MoveSimulation, MovesReplayed

MOST_POINTS = 240
_ENDS: Mapping[RoundEnd, str] = {
    RoundEnd.DONE: "proposed what it could",
    RoundEnd.NO_SOURCE: "no hot node",
    RoundEnd.NOT_ANOMALOUS: "hot nodes, but not for enough cycles",
    RoundEnd.NO_TARGET: "hot nodes, but no low one to move to",
    RoundEnd.NO_FIT: "no low node has room for a pod of a hot one",
    RoundEnd.FEW_LOW_NODES: "fewer low nodes than numberOfNodes",
    RoundEnd.ALL_LOW: "every node is low",
}


class TargetShares(ReportPart):
    """Whether any node could take pods, with every pod where it is at first. Shares of time and loads are in 0..1."""

    low_below_percent: dict[str, float] = Field(description="low thresholds, by resource: a target is below all")
    without: float = Field(description="share of the time in which no node was a target")
    above_low: dict[str, float] = Field(description="the same by the threshold of one resource alone")
    median_load: dict[str, float] = Field(description="of a node that takes pods, median, by resource")


class PoolEnd(ReportPart):
    """So many cycles ended so for a pool of lowNodeLoad."""

    pool: str
    reason: str = Field(description="why it proposed nothing more: done, no_source, not_anomalous, no_target, ...")
    text: str = Field(description="the reason in words")
    cycles: int


class ClusterReplayed(ReportPart):
    """What was replayed."""

    source: str
    nodes: int
    pods: int
    hours: float
    hot_above_percent: dict[str, float] = Field(description="high thresholds, by resource")
    targets: TargetShares
    notes: list[str]


class MoveResult(ReportPart):
    """One way of moving pods."""

    name: str
    hot_node_minutes: float = Field(description="node minutes above a high threshold")
    hot_minutes: float = Field(description="minutes with any such node")
    overloaded_node_minutes: float = Field(description="node minutes in which pods wanted more than the node has")
    imbalance: float = Field(description="standard deviation of the nodes' CPU load, 0..1, mean over time")
    moves: int
    back: int = Field(description="moves to the node where the pod was, or where it came from")
    looping: int = Field(description="workloads that were moved three times per pod within a day")
    refusals: dict[str, int] = Field(description="pods that were not proposed, by reason, summed over cycles")
    ends: list[PoolEnd] = Field(description="cycles by pool and why it proposed nothing more")
    imbalance_points: list[float]
    hot_points: list[float] = Field(description="hot nodes, means of equal parts of the time")


class MoveSimulationReport(ReportPart):
    """The whole answer; the first result is the baseline."""

    schema_: Literal["slackwater.move-simulation/1"] = Field("slackwater.move-simulation/1", alias="schema")
    cluster: ClusterReplayed
    moved: list[MoveResult]


def move_report_of(simulation: MoveSimulation) -> MoveSimulationReport:
    """Returns the report."""
    return MoveSimulationReport(
        cluster=ClusterReplayed(
            source=simulation.title,
            nodes=simulation.nodes,
            pods=simulation.pods,
            hours=round(simulation.hours, 2),
            hot_above_percent=dict(simulation.high),
            targets=_targets(simulation),
            notes=list(simulation.notes),
        ),
        moved=[_result(replay) for replay in simulation.replayed],
    )


def _result(replayed: MovesReplayed) -> MoveResult:
    tally = replayed.tally
    return MoveResult(
        name=replayed.name,
        hot_node_minutes=round(tally.hot_node_minutes, 1),
        hot_minutes=round(tally.hot_minutes, 1),
        overloaded_node_minutes=round(tally.overloaded_node_minutes, 1),
        imbalance=round(tally.mean_imbalance, 5),
        moves=tally.moves,
        back=tally.back,
        looping=len(tally.loops),
        refusals=dict(replayed.refusals),
        ends=[
            PoolEnd(pool=pool, reason=end.value, text=_ENDS[end], cycles=count)
            for (pool, end), count in replayed.ends.items()
        ],
        imbalance_points=[round(value, 5) for value in bucketed(tally.imbalance, MOST_POINTS)],
        hot_points=[round(value, 2) for value in bucketed(tally.hot_nodes, MOST_POINTS)],
    )


def _targets(simulation: MoveSimulation) -> TargetShares:
    tally = simulation.targets
    limited = [(place, name) for place, name in enumerate(RESOURCES) if name in simulation.low]
    return TargetShares(
        low_below_percent=dict(simulation.low),
        without=_share(tally.without, tally.cells),
        above_low={name: _share(tally.above[place], tally.cells) for place, name in limited},
        median_load={
            name: round(float(np.median(tally.loads[place] or [0.0])), 4) for place, name in enumerate(RESOURCES)
        },
    )


def _share(count: int, whole: int) -> float:
    return round(count / whole, 4) if whole else 0.0
