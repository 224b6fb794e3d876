"""The decision records of kept plans: whether one is applied, and what each of its moves gained."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, DecisionRecord, Input, Replay, Term
from slackwater.descheduler.domain.kept_plans import KeptPlan, KeptStep
from slackwater.descheduler.domain.plan_gain import permille, replay_gain, result_of
from slackwater.descheduler.domain.plan_replay import FUNCTION
from slackwater.descheduler.usecases.cycle_records import MOST_LISTED, SERVICE, UNIT, place_of, proposal_id
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.events.move_proposed import MoveProposed
from slackwater.podmigration.jobs import MigrationMode

APPLY: Final = "apply"
GAIN: Final = "gain"
_IDS: Final = uuid.UUID("0b7c5a0e-2f3d-5a57-8f46-1f0c3b1f9d11")
_GAIN_FUNCTION: Final = f"{replay_gain.__module__}:{replay_gain.__name__}"


def application_record(
    plan: KeptPlan, changes: Sequence[str], arguments: Mapping[str, Any], now: datetime
) -> DecisionRecord:
    """Returns the record of a plan that was asked for: applied, or refused because of `changes`."""
    count = 0 if changes else len(plan.steps)
    source = f"deschedulerprofile/{plan.profile}@{plan.profile_generation}"
    inputs = [
        Input(name="plan", value=plan.id, unit="", source=source),
        Input(name="made at", value=_time(plan.made_s), unit="", source="plan"),
        *(
            Input(name=f"change {number}", value=change[:1024], unit="", source="cluster")
            for number, change in enumerate(changes[:MOST_LISTED], 1)
        ),
        *(
            Input(
                name=f"move {step.namespace}/{step.pod}",
                value=f"{step.node} to {step.target or 'any node'}, gain {step.expected_gain:.3f}: {step.reason}",
                unit="",
                source=step.plugin,
            )
            for step in plan.steps[:MOST_LISTED]
        ),
    ]
    return DecisionRecord(
        id=str(uuid.uuid5(_IDS, f"{plan.id}|{'stale' if changes else 'applied'}|{plan.made_s}")),
        kind=DecisionKind.DESCHEDULE,
        node=place_of(plan.profile),
        subject=plan.profile,
        service=SERVICE,
        rule=APPLY,
        reason=Reason.DESCHEDULE_STALE if changes else Reason.DESCHEDULE_PROPOSED,
        decided_at=now,
        trigger_event_id=None,
        inputs=tuple(inputs),
        terms=(Term(name="moves of the plan", value=count, input="plan"),),
        result=count,
        unit=UNIT,
        actions=() if changes else tuple(_action(step) for step in plan.steps[:MOST_LISTED]),
        remaining_because="; ".join(changes)[:1024] or f"plan {plan.id} holds",
        replay=Replay(function=FUNCTION, arguments=dict(arguments)),
    )


def gain_records(plan: KeptPlan, now: datetime) -> Sequence[DecisionRecord]:
    """Returns the record of each measured move, about its job, so that `why migration/NAME` shows it."""
    return [_gain_record(plan, step, step.gain, now) for step in plan.steps if step.gain is not None]


def _gain_record(plan: KeptPlan, step: KeptStep, gain: float, now: datetime) -> DecisionRecord:
    before, after = step.loads.node_before, step.loads.node_before - gain
    terms = (
        Term(name=f"load of {step.node} before", value=permille(before), input="load before"),
        Term(name="load of the new node now", value=-permille(after), input="load now"),
    )
    text = f"gained {gain:.1%} of load, expected {step.expected_gain:.1%}"
    return DecisionRecord(
        id=str(uuid.uuid5(_IDS, f"{plan.id}|gain|{step.job}")),
        kind=DecisionKind.MIGRATION,
        node=step.node,
        subject=step.job,
        service=SERVICE,
        rule=GAIN,
        reason=Reason.MIGRATION_MEASURED,
        decided_at=now,
        trigger_event_id=None,
        inputs=(
            Input(name="load before", value=round(before, 4), unit="", source=f"plan {plan.id}"),
            Input(name="load now", value=round(after, 4), unit="", source="agents' reports"),
            Input(name="expected gain", value=round(step.expected_gain, 4), unit="", source=f"plan {plan.id}"),
            Input(name="measured gain", value=round(gain, 4), unit="", source="agents' reports"),
            Input(name="result", value=result_of(step).value.replace("_", " "), unit="", source="gains"),
            Input(name="plan", value=plan.id, unit="", source=f"deschedulerprofile/{plan.profile}"),
        ),
        terms=terms,
        result=sum(term.value for term in terms),
        unit="permille",
        remaining_because=text,
        replay=Replay(function=_GAIN_FUNCTION, arguments={"before": before, "after": after}),
    )


def step_events(
    profile: DeclaredProfile, cycle: int, steps: Sequence[KeptStep], decision: str, now: datetime
) -> list[MoveProposed]:
    """Returns the event of each proposed move; its id follows from the decision and the pod."""
    return [
        MoveProposed(
            id=proposal_id(decision, step.pod_uid),
            profile=profile.name,
            cycle=cycle,
            plugin=step.plugin,
            pod_uid=step.pod_uid,
            pod_name=step.pod,
            namespace=step.namespace,
            workload=step.workload,
            node=step.node,
            target=step.target,
            gain=round(step.expected_gain, 6),
            reason=step.reason,
            priority=step.priority,
            mode=MigrationMode.EVICT_DIRECTLY if step.failed else profile.mode,
            ttl_seconds=profile.ttl_s,
            decision_id=decision,
            proposed_at=now.astimezone(UTC),
        )
        for step in steps
    ]


def _action(step: KeptStep) -> Action:
    return Action(
        pod_uid=step.pod_uid,
        pod_name=step.pod,
        namespace=step.namespace,
        tier="",
        cpu_limit_before_milli=None,
        cpu_limit_after_milli=None,
        released_milli=0,
    )


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
