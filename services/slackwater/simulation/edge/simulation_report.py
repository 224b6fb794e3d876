"""The result as JSON, schema `slackwater.simulation/1` (docs/how-to/simulate-a-strategy.md): fields are only added."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from slackwater.simulation.domain.tally import Figures
from slackwater.simulation.ports import History
from slackwater.simulation.usecases.replay import Replayed, Simulation
from slackwater.traces.options import TraceResource

MOST_NODES = 10
"""Maximum number of nodes listed for exceeding their capacity."""


class ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HistoryReplayed(ReportPart):
    """The replayed history."""

    source: str
    nodes: int
    hours: float = Field(description="that count")
    start: datetime | None = Field(description="null if the trace has no dates")
    period_seconds: float = Field(description="control period; offers are computed once per period")
    notes: list[str]


class ResourceFigures(ReportPart):
    """One resource over all nodes. Hours are core-hours or GiB-hours, minutes are node minutes, shares are 0..1."""

    capacity_hours: float
    prod_hours: float = Field(description="recorded usage of prod")
    reclaimed_hours: float = Field(description="offered to mid and batch")
    reclaimed_share: float = Field(description="of the capacity")
    batch_hours: float
    mid_hours: float
    exceeded_minutes: float = Field(
        description="node minutes in which prod plus fully used offers exceeded the capacity"
    )
    exceeded_share: float
    any_node_minutes: float = Field(description="minutes in which this was true for at least one node")
    excess_hours: float = Field(description="amount above the capacity, times its duration")
    episodes: int
    longest_episode_minutes: float
    changes_per_hour: float = Field(description="published offers per node and hour")
    batch_changes_per_hour: float
    mid_changes_per_hour: float


class NodeOfNote(ReportPart):
    """One of the nodes that exceeded their capacity for longest."""

    node: str
    exceeded_minutes: dict[str, float]
    reclaimed_hours: dict[str, float]


class StrategyReplayed(ReportPart):
    """One strategy: its settings and the result of the replay."""

    name: str
    specs: list[dict[str, Any]] = Field(description="settings of every strategy that a node follows")
    cpu: ResourceFigures
    memory: ResourceFigures
    worst_nodes: list[NodeOfNote]


class Difference(ReportPart):
    """`name` minus `against`, figure by figure."""

    name: str
    against: str
    cpu: dict[str, float]
    memory: dict[str, float]


class SimulationReport(ReportPart):
    """The output of `slackwater simulate -o json`. The other strategies are compared with the first one."""

    schema_: Literal["slackwater.simulation/1"] = Field(default="slackwater.simulation/1", alias="schema")
    history: HistoryReplayed
    strategies: list[StrategyReplayed]
    differences: list[Difference]


def report_of(simulation: Simulation) -> SimulationReport:
    """Builds the report from the simulation."""
    strategies = [_strategy(replay, simulation.history) for replay in simulation.replayed]
    first, *others = strategies
    pairs = [(other, first) for other in others]
    if len(others) == 2:
        pairs.append((others[1], others[0]))
    return SimulationReport(
        history=_history(simulation.history),
        strategies=strategies,
        differences=[_difference(one, against) for one, against in pairs],
    )


def _history(history: History) -> HistoryReplayed:
    seconds = (history.steps - history.first) * history.period_seconds
    long_ago = history.start_seconds < 86_400 * 365
    return HistoryReplayed(
        source=history.title,
        nodes=len(history.nodes),
        hours=round(seconds / 3600, 3),
        start=None if long_ago else datetime.fromtimestamp(history.start_seconds, UTC),
        period_seconds=history.period_seconds,
        notes=list(history.notes),
    )


def _strategy(replayed: Replayed, history: History) -> StrategyReplayed:
    names = [resource.value for resource in TraceResource]
    return StrategyReplayed(
        name=replayed.variant.name,
        specs=[dict(spec) for spec in replayed.variant.specs],
        cpu=_figures(replayed.tally.figures(0)),
        memory=_figures(replayed.tally.figures(1)),
        worst_nodes=[
            NodeOfNote(
                node=history.nodes[bad.node],
                exceeded_minutes=dict(zip(names, bad.exceeded_minutes, strict=True)),
                reclaimed_hours={name: round(hours, 3) for name, hours in zip(names, bad.reclaimed_hours, strict=True)},
            )
            for bad in replayed.tally.worst(MOST_NODES)
        ],
    )


def _figures(figures: Figures) -> ResourceFigures:
    return ResourceFigures(**{name: _rounded(getattr(figures, name)) for name in ResourceFigures.model_fields})


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, 6)


def _difference(replayed: StrategyReplayed, against: StrategyReplayed) -> Difference:
    def apart(mine: ResourceFigures, theirs: ResourceFigures) -> dict[str, float]:
        other = theirs.model_dump()
        return {name: round(value - other[name], 6) for name, value in mine.model_dump().items()}

    return Difference(
        name=replayed.name,
        against=against.name,
        cpu=apart(replayed.cpu, against.cpu),
        memory=apart(replayed.memory, against.memory),
    )
