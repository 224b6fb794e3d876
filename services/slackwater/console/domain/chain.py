"""The steps from the report that caused a decision to its measured effect, in time order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from slackwater.charts.units import cores, percent
from slackwater.console.domain.arithmetic import relief_of, working_of
from slackwater.console.domain.candidates import candidates_of
from slackwater.console.domain.formatting import outcome, shortfall
from slackwater.console.domain.views import (
    Chain,
    ChainStep,
    EffectView,
    EvictionView,
    ForecastView,
    ObservationView,
    UsagePoint,
    WindowView,
)
from slackwater.decisions.reasons import ONLY_TOLD, DecisionKind, Mode
from slackwater.decisions.record import AGENT, DecisionRecord
from slackwater.model.plurals import counted

_IN_VAIN = frozenset({"refused", "expired", "failed"})
"""Outcomes of an eviction that ended no pod, so that it has no effect."""
_ACTED_ON = frozenset({DecisionKind.THROTTLE, DecisionKind.RESTORE})


def chain_of(
    record: DecisionRecord,
    *,
    trigger: UsagePoint | ForecastView | WindowView | None,
    observations: Sequence[ObservationView],
    effect: EffectView | None,
    evictions: Sequence[EvictionView] = (),
) -> Chain:
    """The chain of one decision. A step that is not known yet, or no longer stored, says so or is absent."""
    steps = [*_trigger_steps(record, trigger), _decision_step(record)]
    steps += [_observation_step(record, seen) for seen in observations]
    steps += [_eviction_step(record, ended) for ended in evictions]
    if effect is not None:
        steps.append(_effect_step(record, effect))
    known = sorted((s for s in steps if s.at is not None), key=_time_of)
    unknown = [s for s in steps if s.at is None]
    start = known[0].at
    timed = [
        replace(s, seconds=(s.at - start).total_seconds()) for s in known if s.at is not None and start is not None
    ]
    return Chain(
        record.id,
        (*unknown, *timed),
        _complete(record, effect, evictions),
        record.trace_id,
        working=working_of(record),
        unit=record.unit,
        order=record.order,
        candidates=candidates_of(record),
        effect=effect,
        relief="" if effect is None else relief_of(record, effect),
    )


def _time_of(step: ChainStep) -> datetime:
    assert step.at is not None  # noqa: S101 - callers pass only steps with a time
    return step.at


def _complete(
    record: DecisionRecord,
    effect: EffectView | None,
    evictions: Sequence[EvictionView],
) -> bool:
    if record.mode is Mode.OBSERVE or record.reason in ONLY_TOLD or record.service == AGENT:
        return True
    if record.kind is DecisionKind.EVICT:
        has_effect = any(eviction.outcome not in _IN_VAIN for eviction in evictions)
        return len(evictions) >= len(record.actions) and (effect is not None or not has_effect)
    if record.kind in _ACTED_ON and record.actions:
        return effect is not None  # measured after the write, although a removed limit names no decision
    return True


def _trigger_steps(record: DecisionRecord, trigger: UsagePoint | ForecastView | WindowView | None) -> list[ChainStep]:
    if record.trigger_event_id is None:
        return []
    if isinstance(trigger, UsagePoint):
        pressure = "unknown" if trigger.prod_pressure is None else percent(trigger.prod_pressure)
        text = f"{trigger.node} used {cores(trigger.usage.cpu_milli)} cores, prod CPU pressure {pressure}"
        detail = {"trigger": trigger.trigger, "prod_pressure": trigger.prod_pressure}
        return [ChainStep("usage.reported", trigger.event_id, trigger.sampled_at, None, text, detail)]
    if isinstance(trigger, ForecastView):
        text = f"{trigger.model} expects a prod peak of {cores(trigger.prod_peak.cpu_milli)} cores"
        detail = {"window_number": trigger.window_number, "decision_id": trigger.decision_id}
        return [ChainStep("peak.predicted", trigger.event_id, trigger.predicted_at, None, text, detail)]
    if isinstance(trigger, WindowView):
        gaps = f", {trigger.gaps} missing" if trigger.gaps else ""
        text = (
            f"window {trigger.number} closed: {counted(trigger.reports, 'report')}{gaps},"
            f" {counted(trigger.pods, 'pod')}, p95 of the node {cores(trigger.node_p95.cpu_milli)} cores"
        )
        window = {"window_start": trigger.window_start, "window_seconds": trigger.window_seconds}
        return [ChainStep("usage.windowed", trigger.event_id, trigger.closed_at, None, text, window)]
    return [
        ChainStep(
            "trigger",
            record.trigger_event_id,
            None,
            None,
            "the event that caused the decision is not stored, or no longer",
        )
    ]


def _decision_step(record: DecisionRecord) -> ChainStep:
    number = len(record.actions)
    pods = f", {number} pod" + ("s" if number > 1 else "") if number else ""
    lacking = shortfall(record)
    reason = str(record.reason).replace("_", " ")
    text = f"{reason}: {record.subject} {outcome(record)}{pods}" + (f"; {lacking}" if lacking else "")
    detail = {
        "rule": record.rule,
        "remaining": record.remaining,
        "because": record.remaining_because,
        "mode": record.mode,
    }
    return ChainStep("decision.recorded", record.id, record.decided_at, None, text, detail)


def _observation_step(record: DecisionRecord, seen: ObservationView) -> ChainStep:
    names = {action.pod_uid: action.pod_name for action in record.actions}
    ours = [limit for limit in seen.limits if limit.decision_id == record.id]
    parts = []
    for limit in ours:
        value = "unlimited" if limit.cpu_limit_milli is None else f"{cores(limit.cpu_limit_milli)} cores"
        parts.append(f"{names.get(limit.pod_uid, limit.pod_uid)} {limit.error or value}")
    text = "written: " + ", ".join(parts) if parts else f"generation {seen.generation} reached"
    detail = {
        "generation": seen.generation,
        "received_at": seen.received_at,
        "limits": [
            {"pod_uid": each.pod_uid, "cpu_limit_milli": each.cpu_limit_milli, "error": each.error} for each in ours
        ],
    }
    return ChainStep("intent.observed", seen.event_id, seen.observed_at, None, text, detail)


def _eviction_step(record: DecisionRecord, ended: EvictionView) -> ChainStep:
    name = next((action.pod_name for action in record.actions if action.pod_uid == ended.pod_uid), ended.pod_uid)
    text = f"{name} {ended.outcome.replace('_', ' ')}" + (f": {ended.detail}" if ended.detail else "")
    return ChainStep("eviction.completed", ended.id, ended.completed_at, None, text, {"outcome": ended.outcome})


def _effect_step(record: DecisionRecord, effect: EffectView) -> ChainStep:
    detail = {
        "relieved": effect.relieved,
        "seconds_to_actuation": effect.seconds_to_actuation,
        "seconds_to_measurement": effect.seconds_to_measurement,
    }
    text = relief_of(record, effect)
    return ChainStep("effect.measured", effect.decision_id, effect.measured_at, None, text, detail)
