"""Predictions of the story's nodes, with their records and accuracy."""

from __future__ import annotations

from datetime import datetime

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay, Term
from slackwater.events.peak_predicted import Calibration, PeakPredicted
from slackwater.model.quantities import Resources

GIB = 2**30
KNOB = 0.24
MODEL, VERSION, DAYS = "workload-profile", "1", 312.0


def prediction_record(node: str, at: datetime, decision_id: str, peak: int, cause: str) -> DecisionRecord:
    """The prod CPU peak (milli-cores) as the four terms of workload-profile; `cause` is the event behind it."""
    together, coincidence, novelty = peak * 82 // 100, peak * 11 // 100, peak * 2 // 100
    parts = (
        ("seen_together", together, "largest hour of two weeks of the present workloads' combined usage"),
        ("coincidence", coincidence, "insured: all own largest hours at the same time"),
        ("novelty", novelty, "insured: all pods at their limits"),
        ("noise", peak - together - coincidence - novelty, "insured: variation that hourly maxima do not show"),
    )
    terms = tuple(Term(name=name, value=value, note=note) for name, value, note in parts)
    pool = "model of pool default"
    return DecisionRecord(
        id=decision_id,
        kind=DecisionKind.PREDICTION,
        node=node,
        subject="prod-cpu-peak",
        service="prediction",
        rule=MODEL,
        reason=Reason.PREDICTION_WINDOW_FOLDED,
        decided_at=at,
        trigger_event_id=cause,
        inputs=(
            Input(name="seen_together", value=together, unit="milli", source=pool),
            Input(name="own_peaks", value=together + 4 * coincidence, unit="milli", source=pool),
            Input(name="limits", value=2 * peak, unit="milli", source=cause, observed_at=at),
            Input(name="knob", value=KNOB, unit="ratio", source=f"ledger of pool default: {DAYS} machine-days"),
        ),
        terms=terms,
        result=peak,
        unit="milli",
        alternatives=(Alternative(what=f"peaks seen together: {together} milli", rejected_because="insures no risk"),),
        replay=Replay(function="tests.support.story:total", arguments={"values": [t.value for t in terms]}),
    )


def predicted(node: str, at: datetime, decision_id: str, peak: int, number: int, window_seconds: int) -> PeakPredicted:
    """The event after window `number`, the first of which is 1."""
    return PeakPredicted(
        node=node,
        predicted_at=at,
        window_number=number,
        window_seconds=window_seconds,
        model=MODEL,
        samples=240 + number,
        cold_start_share=0.0,
        node_peak=Resources(peak + 3500, 8 * GIB),
        system_peak=Resources(320, GIB // 2),
        tier_peaks={"prod": Resources(peak, 3 * GIB), "mid": Resources(420, GIB)},
        prod_peak=Resources(peak, 3 * GIB),
        prod_reclaimable=Resources(max(0, 5000 - peak), GIB),
        pods=(),
        decision_id=decision_id,
        version=VERSION,
        confidence=0.94,
        sample_age_seconds=2.1,
        cause="first" if number == 1 else "diff",
        calibrations={
            "cpu": Calibration(MODEL, VERSION, 0.01, 0.0064, DAYS, KNOB, "default", 3),
            "memory": Calibration(MODEL, VERSION, None, 0.021, DAYS, 0.15, "default", 3),
        },
    )
