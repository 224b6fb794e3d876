"""Decides whether a node is cordoned for new pods: a separate state, published as an event and a
node condition.

It is recomputed from the rules in every cycle, so no cordon is left behind by a restore during the
cool-down, a deleted policy, or a metric that is no longer measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from slackwater.model.records import record
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.policies.values import Policies, PolicyAction

CONDITION: Final = "slackwater.io/interference-identified"


@record(frozen=True, slots=True)
class Scheduling:
    """The cordon state. `because` are the rules that cordoned the node in this episode; their
    longest cool-down applies.
    """

    is_disabled: bool = False
    last_trigger_at: datetime | None = None
    because: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class SchedulingStep:
    """The state now, and the event if it changed."""

    scheduling: Scheduling
    event: Literal["disabled", "enabled"] | None = None


def step(
    before: Scheduling, verdicts: Sequence[RuleVerdict], actions: Mapping[str, PolicyAction], now: datetime
) -> SchedulingStep:
    """Returns the next state. `verdicts` are those of rules whose action exists and that are not
    previews.
    """
    closing = [verdict for verdict in verdicts if actions[verdict.rule.action].disables_scheduling]
    triggered = {one.rule.key for one in closing if one.triggered}
    if triggered:
        because = tuple(sorted(triggered | set(before.because if before.is_disabled else ())))
        return SchedulingStep(Scheduling(True, now, because), None if before.is_disabled else "disabled")
    if not before.is_disabled:
        return SchedulingStep(before)
    if _must_wait(before, closing, actions, now):
        return SchedulingStep(before)
    return SchedulingStep(Scheduling(False, before.last_trigger_at), "enabled")


def reopened(before: Scheduling) -> Scheduling:
    """Returns the state uncordoned, whatever the rules say: without reports for so long, other
    components treat the node as open.
    """
    return Scheduling(False, before.last_trigger_at) if before.is_disabled else before


def under(before: Scheduling, policies: Policies, labels: Mapping[str, str]) -> SchedulingStep:
    """Returns the state under other rules, before a new measurement. Uncordons at once if none of
    the cordoning rules remains; otherwise the remaining ones decide with the next sample.
    """
    if not before.is_disabled:
        return SchedulingStep(before)
    left = tuple(key for key in before.because if key in _closing(policies, labels))
    if left:
        return SchedulingStep(replace(before, because=left))
    return SchedulingStep(reopened(before), "enabled")


def _closing(policies: Policies, labels: Mapping[str, str]) -> frozenset[str]:
    """Returns the rules for a node that may cordon it."""
    actions = {action.name for action in policies.actions if action.disables_scheduling}
    return frozenset(
        rule.key
        for node in policies.nodes
        if node.selector is None or node.selector.matches(labels)
        for rule in node.rules
        if rule.action in actions and not rule.is_preview
    )


def would_close(previews: Sequence[RuleVerdict], actions: Mapping[str, PolicyAction]) -> tuple[str, ...]:
    """Returns the triggered rules with strategy Preview that would cordon the node."""
    return tuple(
        sorted(
            preview.rule.key
            for preview in previews
            if preview.triggered and actions[preview.rule.action].disables_scheduling
        )
    )


def _must_wait(
    before: Scheduling, closing: Sequence[RuleVerdict], actions: Mapping[str, PolicyAction], now: datetime
) -> bool:
    causes = [one for one in closing if one.rule.key in before.because]
    cool_down = max((actions[cause.rule.action].cool_down_seconds for cause in causes), default=0.0)
    last = before.last_trigger_at
    if causes and last is not None and (now - last).total_seconds() <= cool_down:
        return True
    return any(cause.reading is not None and not cause.calm for cause in causes)
