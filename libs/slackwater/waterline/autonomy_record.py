"""Decisions about a pool that steps back from evicting, or may evict again, with their records.
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay, Term
from slackwater.waterline.policies.autonomy import AutonomyPolicy, AutonomyState, mode_of, review_step_back

UNIT: Final = "evictions"
REPLAY: Final = f"{__name__}:replay"
_STATE: Final = TypeAdapter(AutonomyState)
_POLICY: Final = TypeAdapter(AutonomyPolicy)
_TIME: Final = TypeAdapter(datetime)


@dataclass(frozen=True, slots=True)
class AutonomyStep:
    """One pool before and after its guards were evaluated. `node` is where it was noticed, `source`
    the documents in force, `report_id` the report that caused it (None: time or an operator did).
    """

    pool: str
    before: AutonomyState
    after: AutonomyState
    policy: AutonomyPolicy
    now: datetime
    node: str
    source: str
    report_id: str | None = None

    @property
    def reason(self) -> Reason | None:
        """Returns the reason; None: the pool's mode did not change."""
        back = self.after.stepped_back_at
        if back is not None and back != self.before.stepped_back_at:
            return Reason.AUTONOMY_STEPPED_BACK
        return Reason.AUTONOMY_REINSTATED if back is None and self.before.stepped_back_at is not None else None


def autonomy_step_record(decision_id: str, step: AutonomyStep) -> DecisionRecord | None:
    """Returns the record, with the count of the deciding guard; None if nothing changed."""
    reason = step.reason
    if reason is None:
        return None
    term, because = _explanation(step)
    state = replace(step.after, stepped_back_at=None, because="") if term is not None else step.before
    return DecisionRecord(
        id=decision_id,
        kind=DecisionKind.AUTONOMY,
        node=step.node,
        subject=f"pool/{step.pool}",
        service="ensurance",
        rule="",
        mode=mode_of(step.after, step.policy),
        reason=reason,
        decided_at=step.now,
        trigger_event_id=step.report_id,
        inputs=_inputs(step),
        terms=() if term is None else (term,),
        result=0 if term is None else term.value,
        unit=UNIT,
        alternatives=(Alternative(what="evict" if term is not None else "throttle only", rejected_because=because),),
        replay=Replay(
            function=REPLAY,
            arguments={
                "state": _STATE.dump_python(state, mode="json"),
                "policy": _POLICY.dump_python(step.policy, mode="json"),
                "now": _TIME.dump_python(step.now, mode="json"),
            },
        ),
    )


def replay(*, state: Any, policy: Any, now: str) -> Any:
    """Returns the mode after evaluating the guards, and which of them tripped, from JSON."""
    given = _POLICY.validate_python(policy)
    looked = review_step_back(_STATE.validate_python(state), given, _TIME.validate_python(now))
    return {"mode": mode_of(looked, given), "because": looked.because}


def _explanation(step: AutonomyStep) -> tuple[Term | None, str]:
    """Returns the guard's count, and the sentence: as `replay` gives it, because more evictions may have begun since
    the guard tripped."""
    after, policy = step.after, step.policy
    if after.stepped_back_at is not None:
        after = review_step_back(replace(after, stepped_back_at=None, because=""), policy, step.now)
        if len(after.evictions_at) > policy.evictions_per_hour:
            return Term(name="began within an hour", value=len(after.evictions_at)), after.because
        return Term(name="in a row without relief", value=after.missed_in_a_row), after.because
    if step.before.generation != policy.generation:
        return None, "its Autonomy was changed: the guards start anew"
    return None, f"{policy.hold_seconds:g} s have passed"


def _inputs(step: AutonomyStep) -> tuple[Input, ...]:
    policy, since = step.policy, step.before.stepped_back_at
    found = [
        Input(name="granted mode", value=policy.mode, unit="", source=step.source),
        Input(name="evictions_per_hour", value=policy.evictions_per_hour, unit=UNIT, source=step.source),
        Input(name="reliefs_missed", value=policy.reliefs_missed, unit=UNIT, source=step.source),
        Input(name="hold_seconds", value=policy.hold_seconds, unit="s", source=step.source),
    ]
    if since is not None:
        found.append(Input(name="stepped back since", value=since.isoformat(), unit="", source="state"))
    return tuple(found)
