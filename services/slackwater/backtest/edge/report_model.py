"""The result as JSON, schema `slackwater.backtest/1` (docs/reference/backtest.md); fields are only ever added."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from slackwater.backtest.domain.measures import ErrorDistribution, ErrorScores, ModelVerdict, Spread
from slackwater.backtest.service import BacktestOutcome
from slackwater.backtest.usecases.compare import Judgement
from slackwater.traces.trace import DAY_CELLS


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RepairsMade(_Part):
    """What was not as it should be in the file."""

    rows: int = Field(description="rows read")
    unusable: int = Field(description="rows left out: not a number, negative, or of a limit of 0")
    doubled: int = Field(description="rows in the same five minutes as another one of their series: their mean counts")
    over_limit: int = Field(description="rows that used more than their limit: they count with the limit")
    filled: int = Field(description="cells of five minutes without a row, filled with what was known before")
    empty_series: int = Field(description="series left out because no row was usable")


class TraceRead(_Part):
    """What was judged on."""

    file: str
    format: str
    resource: str = Field(description="cpu or memory")
    series: int
    days: float
    whole_machines: bool = Field(description="each series is a whole machine")
    repairs: RepairsMade


class Placement(_Part):
    """How series were put on machines."""

    per_machine: int = Field(description="1: each series is a machine of its own")
    machines: int
    churn_days: float | None = Field(description="mean stay on a machine; null: nobody moves")
    placements: int = Field(description="how many were drawn, with the seeds 1, 2, …")
    wrong_keys: float = Field(description="share of workloads predicted with the history of another one")


class Evaluated(_Part):
    """Which instants count; models learn from the trace's beginning."""

    from_day: float
    to_day: float
    instants: int = Field(description="machines x moments of one placement")


class Spreading(_Part):
    """A figure over the placements."""

    mean: float
    least: float
    greatest: float


class ByMachine(_Part):
    """A figure over machines: quantiles under each placement, then their mean."""

    mean: float
    p10: float
    p50: float
    p90: float
    worst: float = Field(description="the greatest; of savings the least")


class OnePlacement(_Part):
    """The same figures for one seed."""

    violation: float
    severity: float
    savings: float


class ModelJudged(_Part):
    """One model; the first one is `oracle`, which knows what comes. Ratios are 0..1."""

    model: str = Field(description="as asked for")
    version: str
    settings: dict[str, Any]
    violation: Spreading = Field(description="share of instants in which the peak of the next 24 h was above")
    violation_by_machine: ByMachine
    severity: Spreading = Field(description="by which share of the peak it was short, mean over all instants")
    severity_by_machine: ByMachine
    severity_when_violated: Spreading = Field(description="the same over the instants with a violation only")
    savings: Spreading = Field(description="share of the limits of all machines that was not predicted as needed")
    savings_by_machine: ByMachine
    placements: list[OnePlacement]
    seconds: float = Field(description="CPU time of the model itself, all placements together")


class BacktestReport(_Part):
    """The whole answer of `slackwater backtest -o json`."""

    schema_: Literal["slackwater.backtest/1"] = Field(default="slackwater.backtest/1", alias="schema")
    trace: TraceRead
    placement: Placement
    evaluated: Evaluated
    models: list[ModelJudged]


def report_of(outcome: BacktestOutcome) -> BacktestReport:
    """From what was measured to what is shown."""
    trace, layout, judgements = outcome.trace, outcome.layout, outcome.comparison.judgements
    repairs = trace.repairs
    return BacktestReport(
        trace=TraceRead(
            file=trace.title,
            format=outcome.order.form.value,
            resource=trace.resource.value,
            series=trace.series,
            days=round(trace.days, 3),
            whole_machines=trace.whole_machines,
            repairs=RepairsMade(**{name: getattr(repairs, name) for name in RepairsMade.model_fields}),
        ),
        placement=Placement(
            per_machine=layout.per_machine,
            machines=outcome.comparison.machines,
            churn_days=layout.churn_days,
            placements=layout.placements,
            wrong_keys=layout.wrong_keys,
        ),
        evaluated=Evaluated(
            from_day=round(outcome.span.first / DAY_CELLS, 4),
            to_day=round(outcome.span.stop / DAY_CELLS, 4),
            instants=judgements[0].placements[0].instants,
        ),
        models=[_judged(one) for one in judgements],
    )


def _judged(one: Judgement) -> ModelJudged:
    verdict: ModelVerdict = one.verdict
    return ModelJudged(
        model=one.label,
        version=one.version,
        settings=dict(one.settings),
        violation=_spread(verdict.violation),
        violation_by_machine=_by_machine(verdict.violation_by_machine),
        severity=_spread(verdict.severity),
        severity_by_machine=_by_machine(verdict.severity_by_machine),
        severity_when_violated=_spread(verdict.severity_when_violated),
        savings=_spread(verdict.savings),
        savings_by_machine=_by_machine(verdict.savings_by_machine),
        placements=[_one(scores) for scores in one.placements],
        seconds=round(one.seconds, 3),
    )


def _spread(found: Spread) -> Spreading:
    return Spreading(mean=found.mean, least=found.least, greatest=found.greatest)


def _by_machine(found: ErrorDistribution) -> ByMachine:
    return ByMachine(mean=found.mean, p10=found.p10, p50=found.p50, p90=found.p90, worst=found.worst)


def _one(scores: ErrorScores) -> OnePlacement:
    violation, severity = float(scores.violation.mean()), float(scores.severity.mean())
    return OnePlacement(violation=violation, severity=severity, savings=scores.cell_savings)
