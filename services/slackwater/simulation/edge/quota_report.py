"""The result as JSON, schema `slackwater.quota-simulation/1` (docs/how-to/simulate-quotas.md); only added to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slackwater.simulation.domain.quota_tally import QuotaFigures, QuotaTally, jain_index, quantile
from slackwater.simulation.edge.simulation_report import ReportPart
from slackwater.simulation.usecases.replay_quotas import QuotaReplayed, QuotaSimulation


class ArrivalsReplayed(ReportPart):
    """The trace and the pool."""

    source: str
    arrivals: int
    hours: float
    capacity: float = Field(description="the pool, as a share of the most that the trace would use at once")
    pool: dict[str, int] = Field(description="in milli-cores, bytes, thousandths of a GPU")
    period_seconds: float = Field(description="shortest time between two decisions")
    grace_seconds: float = Field(description="from a reclaim to the end of the claim")
    notes: list[str]


class QuotaResult(ReportPart):
    """One quota under one policy."""

    quota: str
    claims: int
    started: int
    waiting: int = Field(description="never started by the end of the trace; their wait counts until then")
    refused: int = Field(description="larger than the quota may ever have; in no waiting time")
    reclaims: int
    wait_mean_seconds: float | None
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None
    had_of_due: float | None = Field(
        description="share that it had of what was due to it: what it requested, up to its fair share"
    )


class PolicyResult(ReportPart):
    """All quotas under one policy."""

    name: str
    wait_mean_seconds: float | None
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None
    started: int
    waiting: int
    refused: int
    reclaims: int
    fairness: float | None = Field(description="Jain's index over the quotas' had_of_due; 1 is equal")
    utilisation: dict[str, float] = Field(description="share of the pool that was used, by resource")
    lost: dict[str, float] = Field(description="part of utilisation: work of reclaimed claims, done in vain")
    quotas: list[QuotaResult]


class QuotaSimulationReport(ReportPart):
    """The whole answer."""

    schema_: Literal["slackwater.quota-simulation/1"] = Field("slackwater.quota-simulation/1", alias="schema")
    trace: ArrivalsReplayed
    results: list[PolicyResult]


def quota_report_of(simulation: QuotaSimulation) -> QuotaSimulationReport:
    """Returns the report; the first result is the baseline."""
    trace, terms = simulation.trace, simulation.terms
    begin_s, end_s = simulation.replayed[0].tally.span_s
    return QuotaSimulationReport(
        trace=ArrivalsReplayed(
            source=trace.source,
            arrivals=len(trace.arrivals),
            hours=round((end_s - begin_s) / 3600, 2),
            capacity=terms.capacity,
            pool=dict(simulation.total),
            period_seconds=terms.period_s,
            grace_seconds=terms.grace_s,
            notes=list(trace.notes),
        ),
        results=[_result(replayed) for replayed in simulation.replayed],
    )


def _result(replayed: QuotaReplayed) -> PolicyResult:
    tally = replayed.tally
    quotas = [_quota(name, figures) for name, figures in sorted(tally.by_quota.items())]
    waits = [wait for figures in tally.by_quota.values() for wait in figures.waits_s]
    shares = [quota.had_of_due for quota in quotas if quota.had_of_due is not None]
    fairness = jain_index(shares)
    return PolicyResult(
        name=replayed.name,
        wait_mean_seconds=_mean(waits),
        wait_p50_seconds=_rounded(quantile(waits, 0.5)),
        wait_p95_seconds=_rounded(quantile(waits, 0.95)),
        started=sum(quota.started for quota in quotas),
        waiting=sum(quota.waiting for quota in quotas),
        refused=sum(quota.refused for quota in quotas),
        reclaims=sum(quota.reclaims for quota in quotas),
        fairness=None if fairness is None else round(fairness, 4),
        utilisation=_of_pool(tally, [figures.used_unit_seconds for figures in tally.by_quota.values()]),
        lost=_of_pool(tally, [figures.lost_unit_seconds for figures in tally.by_quota.values()]),
        quotas=quotas,
    )


def _quota(name: str, figures: QuotaFigures) -> QuotaResult:
    return QuotaResult(
        quota=name,
        claims=figures.claims,
        started=figures.started,
        waiting=figures.waiting,
        refused=figures.refused,
        reclaims=figures.reclaims,
        wait_mean_seconds=_mean(figures.waits_s),
        wait_p50_seconds=_rounded(quantile(figures.waits_s, 0.5)),
        wait_p95_seconds=_rounded(quantile(figures.waits_s, 0.95)),
        had_of_due=round(figures.had / figures.due, 4) if figures.due else None,
    )


def _of_pool(tally: QuotaTally, parts: list[dict[str, float]]) -> dict[str, float]:
    begin_s, end_s = tally.span_s
    return {
        resource: round(sum(part.get(resource, 0.0) for part in parts) / (whole * (end_s - begin_s)), 4)
        for resource, whole in tally.total.items()
        if whole > 0 and end_s > begin_s
    }


def _mean(values: list[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
