"""Builds the events of one node's prediction: peak.predicted, and decision records for CPU and memory of prod."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay, Term
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.peak_predicted import Calibration, PeakPredicted, PodPeak
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.peaks.port import Floats
from slackwater.prediction.domain.cadence import Cause
from slackwater.prediction.domain.due_nodes import PredictedPod, UsedModel
from slackwater.prediction.domain.forecast import LENT_TIERS, Forecast
from slackwater.prediction.domain.policy import PoolPolicy
from slackwater.prediction.domain.prediction_record import Reasons, explain, reasons
from slackwater.prediction.domain.state import LastWindow
from slackwater.telemetry.spans import trace_id_of

SOURCE = "prediction"
SUBJECTS = {"cpu": "prod-cpu-peak", "memory": "prod-memory-peak"}
_IDS = uuid.UUID("0e9a3c52-6f0b-5c58-9f43-3b6f2f7f5a10")
_UNITS = {"cpu": "milli-cores", "memory": "bytes"}
_RATIOS = frozenset({"insured", "novelty", "noise", "knob", "young_share", "rollout", "rollout_share"})


@record(frozen=True, slots=True)
class NodePrediction:
    """All inputs of a node's events; columns of `forecast` are by node number."""

    node: str
    pool: str
    number: int
    window: LastWindow
    cause: Cause
    edition: int
    forecast: Forecast
    policy: PoolPolicy
    models: Mapping[str, UsedModel]
    pods: Sequence[PredictedPod]
    rollouts: Mapping[str, str]
    """By resource: the changing prod workloads with the cause; empty if there are none."""
    cold_of_requests: float
    cold_of_limits: float

    def amounts(self, column: str) -> Resources:
        """Returns the amounts of both resources."""
        return Resources(*(int(getattr(self.forecast.seen[resource], column)[self.number]) for resource in SUBJECTS))

    def stable_id(self, subject: str) -> str:
        """Returns an id that is the same for every prediction from the same window, policy and edition.

        The id of the window's event is random, and no agent reads it: one that could guess this id would publish its
        description under it first, and the broker would drop the prediction as a repeat.
        """
        window, policy = self.window, self.policy
        name = (
            f"{self.node}|{window.event_id}|{window.seconds}|{window.number}"
            f"|{policy.name}|{policy.generation}|{self.edition}|{subject}"
        )
        return str(uuid.uuid5(_IDS, name))


def events_of(prediction: NodePrediction, now: datetime) -> list[Event[Any]]:
    """Returns the events: the records first, because the prediction names one."""
    whys = {resource: reasons(prediction.forecast.seen[resource], prediction.number) for resource in SUBJECTS}
    peaks = {resource: explain(why) for resource, why in whys.items()}
    records = [_recorded(prediction, resource, whys[resource], peaks[resource], now) for resource in SUBJECTS]
    predicted = _predicted(prediction, Resources(peaks["cpu"][0], peaks["memory"][0]), now)
    return [*records, _event(prediction, predicted, "peak.predicted", now)]


def _event(prediction: NodePrediction, data: Any, subject: str, now: datetime) -> Event[Any]:
    window = prediction.window
    return event_of(
        data,
        source=SOURCE,
        time=now,
        causedby=window.event_id or None,
        traceparent=window.traceparent,
        id=prediction.stable_id(subject),
    )


def _predicted(prediction: NodePrediction, prod_peak: Resources, now: datetime) -> PeakPredicted:
    window, forecast = prediction.window, prediction.forecast
    tiers = {
        tier: Resources(*(int(forecast.seen[resource].tiers[place, prediction.number]) for resource in SUBJECTS))
        for place, tier in enumerate(LENT_TIERS)
        if forecast.has_tier[place, prediction.number]
    }
    return PeakPredicted(
        node=prediction.node,
        predicted_at=now,
        window_number=window.number,
        window_seconds=window.seconds,
        model=prediction.models["cpu"].name,
        version=prediction.models["cpu"].version,
        samples=window.windows,
        cold_start_share=prediction.cold_of_requests,
        confidence=1.0 - prediction.cold_of_limits,
        sample_age_seconds=max(now.timestamp() - window.end, 0.0),
        cause=prediction.cause,
        calibrations={resource: _calibration(prediction, resource) for resource in SUBJECTS},
        node_peak=prediction.amounts("node"),
        system_peak=prediction.amounts("system"),
        tier_peaks=tiers,
        prod_peak=prod_peak,
        prod_reclaimable=prediction.amounts("reclaimable"),
        pods=tuple(
            PodPeak(pod.uid, pod.workload, pod.tier, Resources(pod.cpu_milli, pod.memory_bytes), pod.cold)
            for pod in prediction.pods
        ),
        decision_id=prediction.stable_id(SUBJECTS["cpu"]),
    )


def _calibration(prediction: NodePrediction, resource: str) -> Calibration:
    used, policy = prediction.models[resource], prediction.policy
    standing = used.standing
    return Calibration(
        model=used.name,
        version=used.version,
        stated_rate=standing.stated_rate,
        measured_rate=standing.measured_rate,
        machine_days=standing.machine_days,
        knob=standing.knob,
        policy=policy.name,
        generation=policy.generation,
    )


def _recorded(
    prediction: NodePrediction, resource: str, why: Reasons, peak: tuple[int, tuple[Term, ...]], now: datetime
) -> Event[DecisionRecorded]:
    subject, unit = SUBJECTS[resource], _UNITS[resource]
    result, terms = peak
    note = {"note": prediction.rollouts[resource]}
    terms = tuple(term.model_copy(update=note) if term.name == "rollout" else term for term in terms)
    record = DecisionRecord(
        id=prediction.stable_id(subject),
        kind=DecisionKind.PREDICTION,
        node=prediction.node,
        subject=subject,
        service=SOURCE,
        rule=prediction.models[resource].name,
        reason=Reason.PREDICTION_WINDOW_FOLDED,
        decided_at=now,
        trigger_event_id=prediction.window.event_id or None,
        inputs=_inputs(prediction, resource, why),
        terms=terms,
        result=result,
        unit=unit,
        alternatives=_alternatives(why, result, unit),
        replay=Replay(function="slackwater.prediction.domain.prediction_record:decide", arguments=_arguments(why)),
        trace_id=trace_id_of(prediction.window.traceparent),
    )
    return _event(prediction, DecisionRecorded(record=record), f"{subject}/recorded", now)


def _arguments(why: Reasons) -> dict[str, Any]:
    """Builds the arguments directly, because `dataclasses.asdict` copies every value deeply."""
    formula = dict(why.formula)
    return {"terms": dict(why.terms), "limits": why.limits, "owned": why.owned, "formula": formula}


def _inputs(prediction: NodePrediction, resource: str, why: Reasons) -> tuple[Input, ...]:
    window, used, unit = prediction.window, prediction.models[resource], _UNITS[resource]
    at = datetime.fromtimestamp(window.end, UTC)
    policy = f"policy {prediction.policy.name} generation {prediction.policy.generation}"
    seen = prediction.forecast.seen[resource]
    inputs = [
        Input(name="window_number", value=window.number, unit="count", source=window.event_id, observed_at=at),
        Input(name="windows_seen", value=window.windows, unit="count", source=window.event_id, observed_at=at),
        Input(
            name="pods", value=sum(pod.tier == "prod" for pod in prediction.pods), unit="count", source=window.event_id
        ),
        Input(name="model", value=f"{used.name} {used.version}", unit="name", source=policy),
        Input(name="cause", value=prediction.cause, unit="name", source=policy),
        Input(name="limits", value=round(why.limits), unit=unit, source=window.event_id, observed_at=at),
        Input(
            name="system_peak",
            value=_at(seen.system, prediction.number),
            unit=unit,
            source=f"model of pool {prediction.pool}",
        ),
    ]
    if used.problem:
        inputs.append(Input(name="model_problem", value=used.problem, unit="name", source=policy))
    for name, value in why.formula.items():
        if name == "limits":
            continue
        ratio = name in _RATIOS
        where = f"model of pool {prediction.pool}"
        if name == "knob":
            where = _knob_source(prediction, used, policy)
        elif name in ("cold_stand_in", "cold_limits"):
            where = used.fallback
        elif name == "rollout_share":
            where = prediction.rollouts[resource] or where
        inputs.append(
            Input(name=name, value=value if ratio else round(value), unit="ratio" if ratio else unit, source=where)
        )
    return tuple(inputs)


def _at(column: Floats, number: int) -> int:
    return int(column[number])


def _knob_source(prediction: NodePrediction, used: UsedModel, policy: str) -> str:
    """Returns the source of the knob: the policy, or the ledger of the pool."""
    standing = used.standing
    if standing.stated_rate is None:
        return policy
    return f"ledger of pool {prediction.pool}: {standing.machine_days:.1f} machine-days, for the rate in {policy}"


def _alternatives(why: Reasons, result: int, unit: str) -> tuple[Alternative, ...]:
    """Returns the results that other formulas would have given."""
    limits = round(why.limits) + why.owned
    alternatives = []
    if why.formula:
        together, own = (round(why.formula[name]) + why.owned for name in ("seen_together", "own_peaks"))
        alternatives = [
            Alternative(what=f"peaks seen together: {together} {unit}", rejected_because="insures no risk"),
            Alternative(what=f"sum of own peaks: {own} {unit}", rejected_because="the peaks have not coincided so far"),
        ]
    if limits != result:
        alternatives.append(Alternative(what=f"limits: {limits} {unit}", rejected_because="lends nothing"))
    return tuple(alternatives)
