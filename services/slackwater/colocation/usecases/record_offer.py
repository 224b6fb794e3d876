"""The decision record of one resource of an offer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slackwater.colocation.domain.batch import request_policy
from slackwater.colocation.domain.node import NodeState, Source
from slackwater.colocation.domain.offer import FUNCTION, Decided, replay_arguments
from slackwater.colocation.domain.snapshot import NodeSnapshot, amount
from slackwater.colocation.domain.strategy import Strategy
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay

SUBJECTS = {"cpu": "batch-cpu", "memory": "batch-memory"}
UNITS = {"cpu": "milli-cores", "memory": "bytes"}


@dataclass(frozen=True, slots=True)
class Told:
    """What both records of an offer share."""

    before: NodeState
    after: NodeState
    snapshot: NodeSnapshot
    strategy: Strategy
    reason: Reason
    now: datetime
    trigger_id: str | None
    trace_id: str | None = None


def offer_record(told: Told, resource: str, decided: Decided, identity: str) -> DecisionRecord:
    """Inputs with their sources, terms, what other policies would have offered, and how to repeat it."""
    gate = told.before.cpu if resource == "cpu" else told.before.memory
    return DecisionRecord(
        id=identity,
        kind=DecisionKind.OFFER,
        node=told.after.node,
        subject=SUBJECTS[resource],
        service="colocation",
        rule="usage",
        reason=told.reason,
        decided_at=told.now,
        trigger_event_id=told.trigger_id,
        inputs=_inputs(told, resource),
        terms=decided.terms,
        result=decided.value,
        unit=UNITS[resource],
        alternatives=_alternatives(told, resource, decided),
        replay=Replay(
            function=FUNCTION,
            arguments=replay_arguments(resource, told.snapshot, told.strategy, gate, told.before.window_end),
        ),
        trace_id=told.trace_id,
    )


def _inputs(told: Told, resource: str) -> tuple[Input, ...]:
    snapshot, state, unit = told.snapshot, told.after, UNITS[resource]
    percent = told.strategy.cpu_reclaim_threshold_percent
    if resource == "memory":
        percent = told.strategy.memory_reclaim_threshold_percent
    system = None if snapshot.system is None else amount(snapshot.system, resource)
    return (
        _input("capacity", amount(snapshot.capacity, resource), unit, state.described_by),
        _input("reserved_by_node", amount(snapshot.reserved, resource), unit, state.described_by),
        _input("reserved_by_strategy", amount(told.strategy.reserved, resource), unit, None),
        _input("reclaim_threshold", percent, "percent", None),
        _input("system_p95", system, unit, state.used_by),
        *(each for tier in ("prod", "mid") for each in _tier_inputs(told, tier, resource)),
        _input("usage_age", round(snapshot.age_seconds, 1), "seconds", state.used_by),
        _input("lost", str(snapshot.lost).lower(), "", state.liveness_by),
    )


def _tier_inputs(told: Told, tier: str, resource: str) -> tuple[Input, ...]:
    pods = [pod for pod in told.snapshot.pods if pod.tier == tier]
    used = sum(amount(pod.usage, resource) for pod in pods if pod.usage)
    peaks = sum(amount(pod.predicted, resource) for pod in pods if pod.predicted)
    requests = sum(amount(pod.request, resource) for pod in pods)
    unit, state = UNITS[resource], told.after
    return (
        _input(f"{tier}_p95", used, unit, state.used_by),
        _input(f"{tier}_predicted_peaks", peaks, unit, state.predicted_by),
        _input(f"{tier}_requests", requests, unit, state.used_by),
    )


def _input(name: str, value: float | str | None, unit: str, source: Source | None) -> Input:
    return Input(
        name=name,
        value=value,
        unit=unit,
        source=source.event_id if source else "strategy",
        observed_at=source.at if source else None,
    )


def _alternatives(told: Told, resource: str, decided: Decided) -> tuple[Alternative, ...]:
    requested = request_policy(resource, told.snapshot, told.strategy)
    found = [
        Alternative(
            what=f"policy request: {requested} {UNITS[resource]}",
            rejected_because="policy usage is set: it lends what prod requested and will not need",
        )
    ]
    found += [
        Alternative(
            what=f"the computed value: {decided.value - term.value} {UNITS[resource]}",
            rejected_because="the change is within the threshold or has not lasted long enough",
        )
        for term in decided.terms
        if term.name == "hysteresis"
    ]
    return tuple(found)
