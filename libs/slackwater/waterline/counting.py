"""Consecutive samples above, and at or below, each waterline."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.waterline.metrics import METRICS
from slackwater.waterline.policy import Rule
from slackwater.waterline.snapshot import Snapshot
from slackwater.waterline.state import RuleCount


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of one snapshot: neither while it counts, or when the reading is missing."""

    rule: Rule
    reading: float | None
    count: RuleCount
    triggered: bool
    restored: bool


def judge(rule: Rule, snapshot: Snapshot, before: RuleCount) -> Verdict:
    """Count one sample. A missing reading leaves the counters as they were and keeps the reason."""
    metric = METRICS.get(rule.metric)
    reading = metric.reading(snapshot) if metric is not None else None
    if reading is None:
        why = f"no reading of {rule.metric}" if metric is not None else f"{rule.metric} is not a metric"
        count = RuleCount(rule.name, before.above, before.at_or_below, why)
        return Verdict(rule, None, count, triggered=False, restored=False)
    if reading > rule.waterline:
        count = RuleCount(rule.name, min(before.above + 1, rule.avoidance_threshold), 0)
    else:
        count = RuleCount(rule.name, 0, min(before.at_or_below + 1, rule.restore_threshold))
    return Verdict(
        rule,
        reading,
        count,
        triggered=count.above >= rule.avoidance_threshold,
        restored=count.at_or_below >= rule.restore_threshold,
    )


def judge_all(rules: tuple[Rule, ...], snapshot: Snapshot, counts: tuple[RuleCount, ...]) -> tuple[Verdict, ...]:
    """Every rule's verdict, in the order of the policy; rules that are new start at zero."""
    known = {count.rule: count for count in counts}
    return tuple(judge(rule, snapshot, known.get(rule.name, RuleCount(rule.name))) for rule in rules)
