"""usage.windowed: fold it once, in order of arrival, and owe its node's new peaks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, event_of
from slackwater.events.peak_predicted import PeakPredicted, PodPeak
from slackwater.events.usage_windowed import UsageWindowed, WindowedUsage
from slackwater.model.time import Clock
from slackwater.prediction.domain.histogram import SeriesKey
from slackwater.prediction.domain.peaks import (
    MODEL,
    Explained,
    Learned,
    NodePeaks,
    NodeSeries,
    PodSeries,
    explain,
    node_peaks,
    series_to_json,
)
from slackwater.prediction.domain.series import Quantiles, Samples, WindowSamples
from slackwater.prediction.usecases.state import LivingState
from slackwater.telemetry.traceparent import trace_id_of

SOURCE = "prediction"
_IDS = uuid.UUID("0e9a3c52-6f0b-5c58-9f43-3b6f2f7f5a10")
SUBJECTS = {"cpu": "prod-cpu-peak", "memory": "prod-memory-peak"}
_UNITS = {"cpu": "milli-cores", "memory": "bytes"}


async def fold_windows(living: LivingState, clock: Clock, batch: Sequence[tuple[int, Event[UsageWindowed]]]) -> int:
    """Fold a batch of (stream position, event); returns how many windows were new.

    Raises Unavailable when the predictions could not be stored: the folds stand, the predictions are still owed,
    and the next call or snapshot publishes them.
    """
    new = 0
    async with living.lock:
        for sequence, event in batch:
            if living.models.fold(samples_of(event.data)):
                new += 1
                _owe_peaks(living, event, clock.now())
            living.position = sequence
        await living.publish()
    return new


def samples_of(window: UsageWindowed) -> WindowSamples:
    """The p90 of every series that was measured in the window."""
    node, start = window.node, int(window.window_start.timestamp())
    samples: Samples = {}
    _sample(samples, SeriesKey(node, "node", ""), window.node_usage)
    _sample(samples, SeriesKey(node, "system", ""), window.system_usage)
    for tier, usage in window.tiers.items():
        _sample(samples, SeriesKey(node, "tier", tier), usage)
    for measured in window.pods:
        _sample(samples, SeriesKey(node, "pod", measured.pod.uid), measured.usage)
    return WindowSamples(node, start, start + window.window_seconds, samples)


def _sample(samples: Samples, key: SeriesKey, usage: WindowedUsage | None) -> None:
    if usage is not None and usage.samples > 0:
        samples[key] = (float(usage.cpu_p90_milli), float(usage.memory_p90_bytes))


def _owe_peaks(living: LivingState, event: Event[UsageWindowed], now: datetime) -> None:
    window = event.data
    until = int(window.window_start.timestamp()) + window.window_seconds
    if living.is_published(window.node, until):
        return
    series = series_of(living, window)
    peaks = node_peaks(series, living.policy.peaks)
    decisions = [_decision(living, series, resource, event, now) for resource in SUBJECTS]
    predicted = event_of(
        _predicted(window, series, peaks, decisions[0].data.record.id, now),
        source=SOURCE,
        time=now,
        causedby=event,
        id=stable_id(window, "peak.predicted"),
    )
    living.owe(window.node, until, [*decisions, predicted])


def series_of(living: LivingState, window: UsageWindowed) -> NodeSeries:
    """The models of everything that was on the node in this window."""
    node, policy = window.node, living.policy
    keys = [SeriesKey(node, "node", ""), SeriesKey(node, "system", "")]
    keys += [SeriesKey(node, "tier", tier) for tier in window.tiers]
    keys += [SeriesKey(node, "pod", measured.pod.uid) for measured in window.pods]
    known = living.models.quantiles(keys, policy.cpu_percentile, policy.memory_percentile)
    pods = (measured.pod for measured in window.pods)
    tiers = {tier: _learned(known.get(SeriesKey(node, "tier", tier))) for tier in window.tiers}
    return NodeSeries(
        node=node,
        allocatable=living.nodes.get(node),
        pods=tuple(
            PodSeries(
                pod.uid,
                pod.workload,
                pod.tier,
                pod.qos,
                pod.request,
                _learned(known.get(SeriesKey(node, "pod", pod.uid))),
            )
            for pod in pods
        ),
        tiers={tier: learned for tier, learned in tiers.items() if learned is not None},
        system=_learned(known.get(SeriesKey(node, "system", ""))),
        whole=_learned(known.get(SeriesKey(node, "node", ""))),
    )


def _learned(quantiles: Quantiles | None) -> Learned | None:
    if quantiles is None:
        return None
    return Learned(quantiles.cpu_milli, quantiles.memory_bytes, quantiles.windows)


def stable_id(window: UsageWindowed, subject: str) -> str:
    """The same for every fold of the same window, so that a repeat is recognised wherever it arrives."""
    return str(uuid.uuid5(_IDS, f"{window.node}|{window.window_seconds}|{window.number}|{subject}"))


def _predicted(
    window: UsageWindowed, series: NodeSeries, peaks: NodePeaks, decision_id: str, now: datetime
) -> PeakPredicted:
    return PeakPredicted(
        node=window.node,
        predicted_at=now,
        window_number=window.number,
        window_seconds=window.window_seconds,
        model=MODEL,
        samples=series.whole.windows if series.whole else 0,
        cold_start_share=peaks.cold_start_share,
        node_peak=peaks.whole,
        system_peak=peaks.system,
        tier_peaks=dict(peaks.tiers),
        prod_peak=peaks.prod_peak,
        prod_reclaimable=peaks.prod_reclaimable,
        pods=tuple(
            PodPeak(
                uid=pod.uid,
                workload=pod.workload,
                tier=pod.tier,
                peak=peaks.pods[pod.uid].amount,
                cold_start=peaks.pods[pod.uid].cold,
            )
            for pod in series.pods
        ),
        decision_id=decision_id,
    )


def _decision(
    living: LivingState, series: NodeSeries, resource: str, event: Event[UsageWindowed], now: datetime
) -> Event[DecisionRecorded]:
    window, settings = event.data, living.policy.peaks
    explained = explain(series, resource, settings)
    record = DecisionRecord(
        id=stable_id(window, SUBJECTS[resource]),
        kind=DecisionKind.PREDICTION,
        node=window.node,
        subject=SUBJECTS[resource],
        service=SOURCE,
        rule=MODEL,
        reason=Reason.PREDICTION_WINDOW_FOLDED,
        decided_at=now,
        trigger_event_id=event.id,
        inputs=_inputs(series, resource, event),
        terms=explained.terms,
        result=explained.result,
        unit=_UNITS[resource],
        alternatives=_alternatives(explained, _UNITS[resource]),
        replay=Replay(
            function="slackwater.prediction.domain.peaks:decide",
            arguments={"resource": resource, "series": series_to_json(series), "settings": asdict(settings)},
        ),
        trace_id=trace_id_of(event.traceparent),
    )
    identity = stable_id(window, f"{SUBJECTS[resource]}/recorded")
    return event_of(DecisionRecorded(record=record), source=SOURCE, time=now, causedby=event, id=identity)


def _inputs(series: NodeSeries, resource: str, event: Event[UsageWindowed]) -> tuple[Input, ...]:
    window, seen_at = event.data, event.data.window_start
    measured: list[tuple[str, Any, str]] = [
        ("window_number", window.number, "count"),
        ("windows_seen", series.whole.windows if series.whole else 0, "count"),
    ]
    for name, learned in (("prod_tier_percentile", series.tiers.get("prod")), ("system_percentile", series.system)):
        amount = None if learned is None else learned.cpu if resource == "cpu" else learned.memory
        measured.append((name, amount, _UNITS[resource]))
    return tuple(
        Input(name=name, value=value, unit=unit, source=event.id, observed_at=seen_at) for name, value, unit in measured
    )


def _alternatives(explained: Explained, unit: str) -> tuple[Alternative, ...]:
    """The view that was not taken."""
    pods, tier = explained.pod_view.peak, explained.tier_view.peak
    if tier > pods:
        return (Alternative(what=f"pod view: {pods} {unit}", rejected_because="the tier view is larger, so safer"),)
    return (Alternative(what=f"tier view: {tier} {unit}", rejected_because="the pod view is at least as large"),)
