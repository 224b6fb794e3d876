"""The record of a throttle or restore: its inputs, terms that add up, who was spared and why, and how to repeat it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, Alternative, DecisionRecord, Input, Replay, Term
from slackwater.waterline import codec
from slackwater.waterline.metrics import METRICS
from slackwater.waterline.plan import Plan
from slackwater.waterline.policy import WaterlinePolicy
from slackwater.waterline.snapshot import Snapshot
from slackwater.waterline.state import GuardState

UNIT = "milli-cores"
PLAN, RELEASE = "slackwater.waterline.planner:replay", "slackwater.waterline.planner:replay_release"


@dataclass(frozen=True, slots=True)
class Deciding:
    """All that a plan was made from. `snapshot` is None when no report but a new policy led to it."""

    node: str
    capacity_milli: int
    state: GuardState
    policy: WaterlinePolicy
    now: datetime
    snapshot: Snapshot | None = None


def record_of(decision_id: str, plan: Plan, source: Deciding) -> DecisionRecord:
    """The record of `plan`. Terms and result count what is released by a throttle, what is given back by a restore."""
    if plan.kind is None or plan.reason is None:
        raise ValueError("a plan that decides nothing has no record")
    sign = 1 if plan.kind is DecisionKind.THROTTLE else -1
    terms = tuple(
        Term(name=c.name, value=sign * c.released_milli, note=_limits(c.before_milli, c.after_milli))
        for c in plan.changes
    )
    return DecisionRecord(
        id=decision_id,
        kind=plan.kind,
        node=source.node,
        subject="cpu",
        service="ensurance",
        rule=plan.rule,
        mode=source.policy.mode,
        reason=plan.reason,
        decided_at=source.now,
        trigger_event_id=source.snapshot.report_id if source.snapshot is not None else None,
        inputs=_inputs(plan, source),
        terms=terms,
        result=sum(term.value for term in terms),
        unit=UNIT,
        alternatives=tuple(Alternative(what=spared.name, rejected_because=spared.because) for spared in plan.spared),
        actions=_actions(plan),
        remaining=plan.remaining_milli,
        remaining_because=plan.remaining_because,
        replay=_replay(plan, source),
    )


def _actions(plan: Plan) -> tuple[Action, ...]:
    return tuple(
        Action(
            pod_uid=change.uid,
            pod_name=change.name,
            tier=change.tier,
            cpu_limit_before_milli=change.before_milli,
            cpu_limit_after_milli=change.after_milli,
            released_milli=change.released_milli,
        )
        for change in plan.changes
    )


def _limits(before: int | None, after: int | None) -> str:
    return f"limit {'none' if before is None else before} -> {'original' if after is None else after}"


def _inputs(plan: Plan, source: Deciding) -> tuple[Input, ...]:
    name = f"nodeqos/{source.policy.name}@{source.policy.generation}"
    found = [Input(name="mode", value=source.policy.mode, unit="", source=name)]
    if source.snapshot is not None:
        found += _measured(plan, source.snapshot)
    if plan.metric:
        found.append(Input(name="waterline", value=plan.waterline, unit=METRICS[plan.metric].unit, source=name))
        found.append(Input(name="excess_ratio", value=source.policy.throttle.excess_ratio, unit="ratio", source=name))
    found.append(Input(name="capacity", value=source.capacity_milli, unit=UNIT, source="node.described"))
    if plan.kind is DecisionKind.RESTORE:
        demand = source.state.demand_at_trigger_milli
        found.append(Input(name="demand_at_trigger", value=demand, unit=UNIT, source="state"))
    else:
        found.append(Input(name="gap", value=plan.gap_milli, unit=UNIT, source="computed"))
    return tuple(found)


def _measured(plan: Plan, snapshot: Snapshot) -> list[Input]:
    def measured(name: str, value: float | int | None, unit: str) -> Input:
        return Input(name=name, value=value, unit=unit, source=snapshot.report_id, observed_at=snapshot.sampled_at)

    readings = [measured(plan.metric, plan.reading, METRICS[plan.metric].unit)] if plan.metric else []
    return [
        *readings,
        measured("prod_usage", snapshot.prod_usage_milli, UNIT),
        measured("node_usage", snapshot.usage_milli, UNIT),
    ]


def _replay(plan: Plan, source: Deciding) -> Replay:
    arguments: dict[str, Any] = {"state": codec.to_json(source.state)}
    if plan.reason is Reason.RESTORE_MODE_CHANGED:
        return Replay(function=RELEASE, arguments=arguments | {"capacity_milli": source.capacity_milli})
    assert source.snapshot is not None  # noqa: S101 - only a mode change decides without a report
    arguments |= {
        "snapshot": codec.to_json(source.snapshot),
        "policy": codec.to_json(source.policy),
        "now": codec.to_json(source.now),
    }
    return Replay(function=PLAN, arguments=arguments)
