"""Consecutive samples above, and at or below, each waterline; each side resets the other."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from slackwater.model.records import record
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.policies.values import Rule
from slackwater.waterline.registry.metric import Metric, MetricFailed


@record(frozen=True, slots=True)
class RuleState:
    """The state of one rule. `in_episode`: it triggered and was not restored since. `missing`: why
    the last sample did not count. `last_trigger_at` is the last sample above the waterline while it
    counted.
    """

    rule: str
    above: int = 0
    at_or_below: int = 0
    in_episode: bool = False
    last_trigger_at: datetime | None = None
    missing: str = ""


@record(frozen=True, slots=True)
class RuleVerdict:
    """The result of one rule for one sample.

    triggered  above for long enough; again with every further sample above
    calm       at or below for long enough; again with every further sample, whatever preceded
    restored   calm for the first time since it triggered; published as an event
    """

    rule: Rule
    metric: Metric | None
    reading: Decimal | None
    state: RuleState
    triggered: bool = False
    calm: bool = False
    restored: bool = False

    def is_over(self, now: datetime) -> bool:
        """Returns whether the cool-down since the last trigger is over."""
        last = self.state.last_trigger_at
        return last is None or (now - last).total_seconds() >= self.rule.cool_down_seconds


def reading_of(metric: Metric, view: NodeReadings, selector: LabelSelector | None) -> Decimal | None:
    """Returns the largest selected series; None without one. A non-finite number is not measured,
    because neither a record nor a stored row can hold it. Raises MetricFailed.
    """
    series = metric.read(view)
    if selector is None and len(series) == 1:  # almost every metric, in every report
        value = exact(series[0].value)
        return value if value.is_finite() else None
    chosen = [one.value for one in series if selector is None or selector.matches(one.labels)]
    known = [value for value in map(exact, chosen) if value.is_finite()]
    return max(known) if known else None


def _read(rule: Rule, metric: Metric | None, view: NodeReadings) -> tuple[Decimal | None, str]:
    """Returns the reading, or why there is none."""
    if metric is None:
        return None, f"{rule.metric} is not a metric"
    try:
        return reading_of(metric, view, rule.selector), f"no reading of {rule.metric}"
    except MetricFailed as failed:
        return None, str(failed)


def _is_settled(state: RuleState, below: int) -> bool:
    """Returns whether another calm sample changes nothing."""
    return state.at_or_below == below and not (state.above or state.in_episode or state.missing)


def is_still_calm(rule: Rule, metric: Metric | None, view: NodeReadings, state: RuleState) -> bool:
    """Returns whether this sample is calm and leaves the state as it is, told without exact arithmetic. False: `judge`
    decides. A float is compared exactly with a decimal, so it may differ from `judge` only at the waterline itself,
    which is calm too unless `reached_counts`.
    """
    if metric is None or metric.readings is not None or metric.reached_counts or rule.selector is not None:
        return False
    if state.at_or_below < rule.restore_threshold or not _is_settled(state, rule.restore_threshold):
        return False
    series = view.readings.get(metric.name, ())
    return len(series) == 1 and 0 <= series[0].value < rule.waterline


def judge(rule: Rule, metric: Metric | None, view: NodeReadings, before: RuleState, now: datetime) -> RuleVerdict:
    """Returns the verdict on one sample. An unknown metric, or one without a sample, keeps the
    counts and sets `missing`.
    """
    reading, why = _read(rule, metric, view)
    if metric is None or reading is None:
        return RuleVerdict(rule, metric, None, before if before.missing == why else replace(before, missing=why))
    if metric.is_above(reading, rule.waterline):
        above = min(before.above + 1, rule.avoidance_threshold)
        triggered = above >= rule.avoidance_threshold
        last = now if triggered else before.last_trigger_at
        state = RuleState(rule.key, above, 0, before.in_episode or triggered, last)
        return RuleVerdict(rule, metric, reading, state, triggered=triggered)
    below = min(before.at_or_below + 1, rule.restore_threshold)
    calm = below >= rule.restore_threshold
    if calm and _is_settled(before, below):
        return RuleVerdict(rule, metric, reading, before, calm=True)
    state = RuleState(rule.key, 0, below, before.in_episode and not calm, before.last_trigger_at)
    return RuleVerdict(rule, metric, reading, state, calm=calm, restored=calm and before.in_episode)
