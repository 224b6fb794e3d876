"""Which decisions of a cycle are recorded: each once per episode, however many cycles repeat it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.loop.feedback import LoopState

_DEMANDED: Final = (ActionKind.THROTTLE, ActionKind.THROTTLE_MEMORY, ActionKind.EVICT)


@record(frozen=True, slots=True)
class RecordedPlan:
    """One decision of a cycle. `carried_out` False: recorded only, for a dry run or without
    candidates.
    """

    kind: ActionKind
    plan: Plan
    carried_out: bool


def plans_to_record(plan: Plan, dry_run: Plan, state: LoopState) -> tuple[tuple[RecordedPlan, ...], LoopState]:
    """Returns the decisions to record, and the state that remembers them."""
    marks, records = set(state.recorded), [RecordedPlan(kind, plan, True) for kind in ActionKind if plan.of(kind)]
    for kind in _DEMANDED:
        if not plan.of(kind) and _is_open(plan, kind) and (mark := f"open/{kind}") not in marks:
            marks.add(mark)
            records.append(RecordedPlan(kind, plan, False))
        new = {f"dry-run/{kind}/{step.uid}" for step in dry_run.of(kind)}
        if not new and _is_open(dry_run, kind):
            new = {f"dry-run/{kind}/"}
        if new - marks:
            marks |= new
            records.append(RecordedPlan(kind, dry_run, False))
    return tuple(records), replace(state, recorded=tuple(sorted(marks)))


def cordons_to_record(rules: tuple[str, ...], state: LoopState) -> tuple[tuple[str, ...], LoopState]:
    """Returns the rules that would cordon the node and were not reported in this episode, and the
    state that remembers them.
    """
    marks = set(state.recorded)
    new = tuple(rule for rule in rules if f"dry-run/cordon/{rule}" not in marks)
    if not new:
        return (), state
    return new, replace(state, recorded=tuple(sorted(marks | {f"dry-run/cordon/{rule}" for rule in new})))


def _is_open(plan: Plan, kind: ActionKind) -> bool:
    """Returns whether a gap of at least one unit stays without candidates, or a gap is unknown."""
    return any(gap.kind is kind and (gap.open is None or gap.open >= 1) for gap in plan.remaining)
