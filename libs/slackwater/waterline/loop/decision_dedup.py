"""Selects the decisions to record: every action, and once per episode what would be done or cannot
be done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.loop.feedback import LoopState

_ASKED: Final = (ActionKind.THROTTLE, ActionKind.EVICT)


@record(frozen=True, slots=True)
class RecordedPlan:
    """One decision of a cycle. `carried_out` False: recorded only, for a preview or without
    candidates.
    """

    kind: ActionKind
    plan: Plan
    carried_out: bool


def plans_to_record(plan: Plan, would: Plan, state: LoopState) -> tuple[tuple[RecordedPlan, ...], LoopState]:
    """Returns the decisions to record, and the state that remembers them."""
    known, found = set(state.told), [RecordedPlan(kind, plan, True) for kind in ActionKind if plan.of(kind)]
    for kind in _ASKED:
        if not plan.of(kind) and _is_open(plan, kind) and (mark := f"open/{kind}") not in known:
            known.add(mark)
            found.append(RecordedPlan(kind, plan, False))
        named = {f"would/{kind}/{step.uid}" for step in would.of(kind)}
        if not named and _is_open(would, kind):
            named = {f"would/{kind}/"}
        if named - known:
            known |= named
            found.append(RecordedPlan(kind, would, False))
    return tuple(found), replace(state, told=tuple(sorted(known)))


def _is_open(plan: Plan, kind: ActionKind) -> bool:
    """Returns whether a gap of at least one unit stays without candidates, or a gap is unknown."""
    return any(one.kind is kind and (one.open is None or one.open >= 1) for one in plan.remaining)


def cordons_to_record(rules: tuple[str, ...], state: LoopState) -> tuple[tuple[str, ...], LoopState]:
    """Returns the rules that would cordon the node and were not reported in this episode, and the
    state that remembers them.
    """
    known = set(state.told)
    new = tuple(rule for rule in rules if f"would/close/{rule}" not in known)
    if not new:
        return (), state
    return new, replace(state, told=tuple(sorted(known | {f"would/close/{rule}" for rule in new})))
