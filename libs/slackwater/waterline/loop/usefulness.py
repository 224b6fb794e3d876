"""Judges whether the throttles of a rule help, so that useless limits are undone. Pure.

The test compares the metric with limits in force to the reading that led to them, when the pods ran under their CPU
weights alone, as long as prod's demand is comparable:

    relief = (before - after) / (before - target)        1: at the target, 0: no effect

A rule's throttles are useless if the largest relief of the last `trials` samples is not at least `least_relief` above
the mean relief without limits (measured in the same way while the rule is suspended, 0 until then), and the relief does
not grow from sample to sample, as it does when limits fall step by step. Its limits are then undone, and the rule sets
none for `useless_backoff_seconds`, twice as long each further time, up to `useless_backoff_most_seconds`. It starts
anew when other pods of lower tiers run on the node, prod's demand is another, or rule, action or CPU weights are.

Where weights protect prod, a rule waits before its first trial (loop.weights_first), and the relief without limits is
measured meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from pydantic import BaseModel

from slackwater.model.records import record
from slackwater.model.tiers import BORROWING_TIERS
from slackwater.waterline.analysis.sample_counters import RuleVerdict
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop import weights_first
from slackwater.waterline.policies.values import PolicyAction, Rule

QuotaUse = Literal["when-helpful", "always"]
COMPARABLE_RATIO: Final = 0.3
"""Prod's demand is comparable if it differs by at most this share of the larger."""
GROWTH_RATIO: Final = 0.05
"""Relief grows if the last sample shows at least so much more than the first."""
STALE_SECONDS: Final = 30.0
"""A reading without limits is no longer compared after this time."""


@dataclass(frozen=True, slots=True)
class UsefulnessPolicy:
    """The parameters of the test, as in `spec.throttle` of the cluster's NodeQOS."""

    quota: QuotaUse = "when-helpful"
    trials: int = 3
    least_relief: float = 0.25
    useless_backoff_seconds: float = 60.0
    useless_backoff_most_seconds: float = 3600.0
    quota_after_seconds: float = 30.0


@record(frozen=True, slots=True)
class UselessThrottle:
    """The finding that a rule's limits have no effect, with its arithmetic."""

    rule: str
    reliefs: tuple[float, ...]
    controls: tuple[float, ...]
    least_relief: float
    backoff_seconds: float


@record(frozen=True, slots=True)
class RuleEffect:
    """What is known of one rule's throttles on one node.

    before        reading that the next samples are compared with; None: nothing is being compared
    is_control    the comparison is without limits, because the rule is suspended or waits
    demand_milli  prod's demand at `before`
    at            when `before` was read
    pods          digest of the lower tiers' pods when the rule last triggered
    reliefs       of the last samples with limits; `controls` without
    undone        how often in a row its limits were undone
    until         no limits before this time
    finding       why; kept until then, so that the limits are undone once no other rule needs them
    basis         digest of rule, action and CPU weights: what is known holds for no other
    crossing      since when its waterline is crossed
    waits_until   weights protect prod: no limits before this time
    has_helped    limits brought relief when they were last judged: the next ones need not wait
    """

    rule: str
    before: float | None = None
    is_control: bool = False
    demand_milli: int = 0
    at: datetime | None = None
    pods: str = ""
    reliefs: tuple[float, ...] = ()
    controls: tuple[float, ...] = ()
    undone: int = 0
    until: datetime | None = None
    finding: UselessThrottle | None = None
    basis: str = ""
    crossing: weights_first.Crossed | None = None
    waits_until: datetime | None = None
    has_helped: bool = False

    def is_suspended(self, now: datetime) -> bool:
        return self.until is not None and now < self.until

    def is_waiting(self, now: datetime) -> bool:
        return self.waits_until is not None and now < self.waits_until

    def sets_no_limit(self, now: datetime) -> bool:
        return self.is_suspended(now) or self.is_waiting(now)

    @property
    def is_open(self) -> bool:
        """Returns whether every sample counts, calm ones included."""
        return self.before is not None or self.crossing is not None

    @property
    def is_on_trial(self) -> bool:
        """Returns whether samples with limits are being compared."""
        return self.before is not None and not self.is_control

    def interrupted(self) -> RuleEffect:
        """Returns the effect without a comparison under way."""
        return replace(self, before=None, reliefs=())


@dataclass(frozen=True, slots=True)
class ThrottleSample:
    """What one cycle knows. `is_limited`: limits of ours are in force; `is_fresh`: the sample shows them; `is_damped`:
    limits fell a short time ago, after they had risen (see loop.reversals).
    """

    view: NodeReadings
    demand_milli: int
    is_limited: bool
    is_fresh: bool
    now: datetime
    is_damped: bool = False


def relief(before: float, after: float, target: float) -> float:
    """Returns the share of the excess over the target that is gone, within -1..1."""
    if before <= target:
        return 0.0
    return max(-1.0, min(1.0, (before - after) / (before - target)))


def comparable(one_milli: int, other_milli: int) -> bool:
    """Returns whether two demands of prod are close enough for their readings to be compared."""
    return abs(one_milli - other_milli) <= COMPARABLE_RATIO * max(one_milli, other_milli)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def is_useless(reliefs: Sequence[float], controls: Sequence[float], policy: UsefulnessPolicy) -> bool:
    """Returns whether enough samples with limits show no more relief than samples without."""
    if len(reliefs) < policy.trials:
        return False
    return not is_growing(reliefs) and max(reliefs) < needed(controls, policy)


def needed(controls: Sequence[float], policy: UsefulnessPolicy) -> float:
    """Returns the relief from which throttles help."""
    return max(0.0, mean(controls)) + policy.least_relief


def is_growing(reliefs: Sequence[float]) -> bool:
    return reliefs[-1] - reliefs[0] >= GROWTH_RATIO


def backoff_seconds(undone: int, policy: UsefulnessPolicy) -> float:
    """Returns the suspension after limits were undone `undone` times in a row, from 1."""
    doubled = policy.useless_backoff_seconds * 2.0 ** min(max(0, undone - 1), 30)
    return min(policy.useless_backoff_most_seconds, doubled)


def judge_throttles(
    known: Iterable[RuleEffect],
    verdicts: Iterable[RuleVerdict],
    sample: ThrottleSample,
    policy: UsefulnessPolicy,
    actions: Iterable[PolicyAction] = (),
) -> tuple[RuleEffect, ...]:
    """Returns what is known of every rule after this sample. `actions` are those that the rules name."""
    if policy.quota == "always":
        return ()
    by_rule: Mapping[str, RuleEffect] = {one.rule: one for one in known}
    by_name = {action.name: action for action in actions}
    effects = []
    for verdict in verdicts:
        rule, effect = verdict.rule, by_rule.get(verdict.rule.key)
        if effect is None and not verdict.triggered:
            continue
        basis = basis_of(rule, by_name.get(rule.action), sample.view.cpu_weights)
        if effect is None or effect.basis not in ("", basis):
            effect = RuleEffect(rule.key)
        effects.append(_after(replace(effect, basis=basis), verdict, sample, policy))
    return tuple(effects)


def basis_of(rule: Rule, action: PolicyAction | None, cpu_weights: str) -> str:
    """Returns a digest of what a finding depends on. A preview of a rule is the same rule, and so is a rule that was
    read from the JSON of a record, where 300 may stand for 300.0, and 0.10 for 0.1.
    """
    text = _canonical((replace(rule, is_preview=False), action, cpu_weights))
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()


def _canonical(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value.normalize())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    if isinstance(value, BaseModel):
        return _canonical(value.model_dump())
    if is_dataclass(value):
        return _canonical({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return f"{{{','.join(sorted(f'{name}={_canonical(part)}' for name, part in value.items()))}}}"
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_canonical, value))}]"
    return repr(value)


def _after(effect: RuleEffect, verdict: RuleVerdict, sample: ThrottleSample, policy: UsefulnessPolicy) -> RuleEffect:
    if verdict.triggered:
        effect = _in_picture(effect, sample)
    effect = _left_to_weights(effect, verdict, sample, policy)
    if verdict.rule.is_preview:
        return effect.interrupted()
    if not sample.is_fresh or verdict.reading is None:
        return effect
    if effect.before is not None and _is_over(effect, sample):
        effect = replace(effect, before=None)
    if effect.before is None:
        if not verdict.triggered or sample.is_limited:
            return effect
        return _begun(effect, float(verdict.reading), sample)
    return _compared(effect, relief(effect.before, float(verdict.reading), float(verdict.rule.target)), sample, policy)


def _left_to_weights(
    effect: RuleEffect, verdict: RuleVerdict, sample: ThrottleSample, policy: UsefulnessPolicy
) -> RuleEffect:
    crossing = weights_first.crossed(effect.crossing, verdict, sample.now)
    waits = None
    if crossing is not None and not effect.has_helped and weights_first.is_protected(verdict, sample.view):
        waits = crossing.since + timedelta(seconds=policy.quota_after_seconds)
    return replace(effect, crossing=crossing, waits_until=waits)


def _in_picture(effect: RuleEffect, sample: ThrottleSample) -> RuleEffect:
    """Returns the effect, or a new one if the node's lower tiers or prod's demand are no longer those it is about."""
    pods = digest_of(sample.view)
    if not effect.pods:
        return replace(effect, pods=pods)
    is_suspended = effect.is_suspended(sample.now) and not sample.is_damped  # noise in the demand must not end it early
    is_other = is_suspended and not comparable(effect.demand_milli, sample.demand_milli)
    if pods != effect.pods or is_other:
        return RuleEffect(effect.rule, pods=pods, basis=effect.basis, has_helped=effect.has_helped)
    return effect


def digest_of(view: NodeReadings) -> str:
    """Returns a digest of the uids of all pods of lower tiers."""
    uids = "\n".join(sorted(pod.uid for pod in view.pods if pod.tier in BORROWING_TIERS))
    return hashlib.blake2s(uids.encode(), digest_size=8).hexdigest()


def _is_over(effect: RuleEffect, sample: ThrottleSample) -> bool:
    """Returns whether `before` can no longer be compared: the limits went or came, prod's demand changed, or it is
    old."""
    is_old = effect.at is None or (sample.now - effect.at).total_seconds() > STALE_SECONDS
    is_other = sample.is_limited is effect.is_control or effect.is_control is not effect.sets_no_limit(sample.now)
    return is_old or is_other or not comparable(effect.demand_milli, sample.demand_milli)


def _begun(effect: RuleEffect, reading: float, sample: ThrottleSample) -> RuleEffect:
    return replace(
        effect,
        before=reading,
        is_control=effect.sets_no_limit(sample.now),
        demand_milli=sample.demand_milli,
        at=sample.now,
        reliefs=(),
    )


def _compared(effect: RuleEffect, found: float, sample: ThrottleSample, policy: UsefulnessPolicy) -> RuleEffect:
    if effect.is_control:
        controls = (*effect.controls, found)[-policy.trials :]
        is_enough = len(controls) >= policy.trials
        return replace(effect, controls=controls, before=None if is_enough else effect.before)
    reliefs = (*effect.reliefs, found)[-policy.trials :]
    if len(reliefs) < policy.trials:
        return replace(effect, reliefs=reliefs)
    if is_growing(reliefs) and max(reliefs) < needed(effect.controls, policy):
        return replace(effect, reliefs=reliefs)  # not enough yet: judged again with the next sample
    if not is_useless(reliefs, effect.controls, policy):
        return replace(effect, reliefs=(), before=None, undone=0, until=None, finding=None, has_helped=True)
    undone = effect.undone + 1
    seconds = backoff_seconds(undone, policy)
    finding = UselessThrottle(effect.rule, reliefs, effect.controls, policy.least_relief, seconds)
    until = sample.now + timedelta(seconds=seconds)
    return replace(
        effect,
        reliefs=(),
        before=None,
        undone=undone,
        until=until,
        controls=(),
        finding=finding,
        has_helped=False,
    )
