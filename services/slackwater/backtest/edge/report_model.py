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
    """Repairs of invalid rows and gaps in the trace."""

    rows: int = Field(description="rows read")
    unusable: int = Field(description="rows left out: not a number, negative, or of a limit of 0")
    doubled: int = Field(description="rows in the same five minutes as another row of their series: their mean counts")
    over_limit: int = Field(description="rows with more usage than their limit: they count with the limit")
    filled: int = Field(description="cells of five minutes without a row, filled with the previous value")
    empty_series: int = Field(description="series left out because no row was usable")


class TraceRead(_Part):
    """The trace that was evaluated."""

    file: str
    format: str
    resource: str = Field(description="cpu or memory")
    series: int
    days: float
    whole_machines: bool = Field(description="each series is a whole machine")
    repairs: RepairsMade


class Placement(_Part):
    """How series were placed on machines."""

    per_machine: int = Field(description="1: each series is one machine")
    machines: int
    churn_days: float | None = Field(description="mean stay on a machine; null: workloads do not move")
    placements: int = Field(description="number of random placements, with the seeds 1, 2, …")
    wrong_keys: float = Field(description="share of workloads predicted from the history of another workload")


class Evaluated(_Part):
    """The evaluated instants; models learn from the start of the trace."""

    from_day: float
    to_day: float
    instants: int = Field(description="machines x moments of one placement")


class Spreading(_Part):
    """A figure over all placements."""

    mean: float
    least: float
    greatest: float


class ByMachine(_Part):
    """A figure over machines: quantiles for each placement, averaged over the placements."""

    mean: float
    p10: float
    p50: float
    p90: float
    worst: float = Field(description="the maximum; of savings the minimum")


class OnePlacement(_Part):
    """The figures of one seed."""

    violation: float
    severity: float
    savings: float


class ModelJudged(_Part):
    """One model; the first is `oracle`, the perfect forecast. Ratios are 0..1."""

    model: str = Field(description="the label given on the command line")
    version: str
    settings: dict[str, Any]
    violation: Spreading = Field(
        description="share of instants whose actual peak in the next 24 h exceeded the prediction"
    )
    violation_by_machine: ByMachine
    severity: Spreading = Field(description="shortfall as a share of the actual peak, mean over all instants")
    severity_by_machine: ByMachine
    severity_when_violated: Spreading = Field(description="severity, mean over the instants with a violation")
    savings: Spreading = Field(description="share of the limits of all machines above the prediction")
    savings_by_machine: ByMachine
    placements: list[OnePlacement]
    seconds: float = Field(description="CPU time of the model, over all placements")


class BacktestReport(_Part):
    """The output of `slackwater backtest -o json`."""

    schema_: Literal["slackwater.backtest/1"] = Field(default="slackwater.backtest/1", alias="schema")
    trace: TraceRead
    placement: Placement
    evaluated: Evaluated
    models: list[ModelJudged]


def report_of(outcome: BacktestOutcome) -> BacktestReport:
    """Builds the report from the outcome."""
    trace, layout, judgements = outcome.trace, outcome.layout, outcome.comparison.judgements
    repairs = trace.repairs
    return BacktestReport(
        trace=TraceRead(
            file=trace.title,
            format=outcome.order.form or "",
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
        models=[_judged(judgement) for judgement in judgements],
    )


def _judged(judgement: Judgement) -> ModelJudged:
    verdict: ModelVerdict = judgement.verdict
    return ModelJudged(
        model=judgement.label,
        version=judgement.version,
        settings=dict(judgement.settings),
        violation=_spread(verdict.violation),
        violation_by_machine=_by_machine(verdict.violation_by_machine),
        severity=_spread(verdict.severity),
        severity_by_machine=_by_machine(verdict.severity_by_machine),
        severity_when_violated=_spread(verdict.severity_when_violated),
        savings=_spread(verdict.savings),
        savings_by_machine=_by_machine(verdict.savings_by_machine),
        placements=[_placement(scores) for scores in judgement.placements],
        seconds=round(judgement.seconds, 3),
    )


def _spread(spread: Spread) -> Spreading:
    return Spreading(mean=spread.mean, least=spread.least, greatest=spread.greatest)


def _by_machine(errors: ErrorDistribution) -> ByMachine:
    return ByMachine(mean=errors.mean, p10=errors.p10, p50=errors.p50, p90=errors.p90, worst=errors.worst)


def _placement(scores: ErrorScores) -> OnePlacement:
    violation, severity = float(scores.violation.mean()), float(scores.severity.mean())
    return OnePlacement(violation=violation, severity=severity, savings=scores.cell_savings)
