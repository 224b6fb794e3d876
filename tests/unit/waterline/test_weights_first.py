"""Where the agent finds weights in force, a waterline on prod's CPU pressure costs batch no quota that prod does not
need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from waterline_loop import CLOSED_LOOP, EVICT, GuardLoop, at, line, under
from waterline_plant import Plant

from slackwater.decisions.reasons import Mode, Reason
from slackwater.waterline import cycle_replay
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.analysis.sample_counters import RuleState, RuleVerdict
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import record_of
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.loop.usefulness import basis_of
from slackwater.waterline.loop.weights_first import GAP_SECONDS, Crossed, crossed
from slackwater.waterline.node_guard import GuardResult, described_anew, fast_path, under_new_rules
from slackwater.waterline.policies.values import PolicyAction, Rule
from slackwater.waterline.rulebook import Rulebook

AFTER = int(LoopPolicy().quota_after_seconds)
BOTH = PolicyAction("throttle", ThrottleBounds(), evicts=True, disables_scheduling=False)


@dataclass
class WeighedLoop(GuardLoop):
    """A node whose agent reports the weights in force; `pressures` replaces the plant's pressure second by second."""

    weights: str = "by-tier-idle"
    pressures: tuple[float, ...] = ()

    def view(self) -> NodeReadings:
        seen = replace(super().view(), cpu_weights=self.weights, sampled_at=at(self.at))
        if not self.pressures:
            return seen
        level = self.pressures[min(int(self.at), len(self.pressures)) - 1]
        series = tuple(replace(one, value=level) for one in seen.readings["prod_cpu_pressure"])
        return replace(seen, readings={**seen.readings, "prod_cpu_pressure": series})

    def quota_seconds(self) -> int:
        return sum(1 for _, made in self.done if made.state.throttles)


def weighed(*pressures: float, **fields: Any) -> WeighedLoop:
    """Prod wants 600 of 2000 milli-cores; no quota changes the given pressures."""
    plant = Plant(prod_demand=600, batch={"b0": 2000, "b1": 2000})
    return WeighedLoop(plant, pressures=pressures or (0.5,), **fields)


def helpful(**fields: Any) -> WeighedLoop:
    """Weights in force do not suffice: prod lacks CPU until batch has a quota."""
    return WeighedLoop(Plant(prod_demand=1500, prod_weight=1.0, batch={"b0": 2000}), **fields)


def kinds(made: GuardResult) -> set[ActionKind]:
    return {step.kind for step in made.cycle.plan.steps}


SHORT = replace(CLOSED_LOOP, loop=LoopPolicy(quota_after_seconds=6))
episodes = st.lists(st.tuples(st.integers(1, 6), st.floats(0.11, 1)), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(episodes, st.integers(2, 10), st.sampled_from(["by-tier", "by-tier-idle"]))
def test_no_quota_while_weights_are_in_force_and_pressure_falls_in_time(
    crossings: list[tuple[int, float]], calm: int, weights: str
) -> None:
    pressures = [level for long, high in crossings for level in (*[high] * long, *[0.0] * calm)]
    loop = weighed(*pressures, weights=weights, options=SHORT)
    loop.run(len(pressures))
    assert loop.quota_seconds() == 0
    assert not any(kinds(made) for _, made in loop.done)


@pytest.mark.parametrize("weights", ["by-tier", "by-tier-idle"])
def test_a_quota_is_tried_when_the_waterline_stays_crossed(weights: str) -> None:
    loop = helpful(weights=weights)
    loop.run(AFTER)
    assert loop.quota_seconds() == 0
    loop.run(2)
    assert loop.plant.limits


@pytest.mark.parametrize("weights", ["", "by-request"])
def test_without_weights_in_force_the_quota_comes_at_once(weights: str) -> None:
    loop = helpful(weights=weights)
    loop.run(1)
    assert loop.plant.limits


def test_always_and_no_wait_give_the_quota_at_once() -> None:
    for policy in (LoopPolicy(quota="always"), LoopPolicy(quota_after_seconds=0)):
        loop = helpful(options=replace(CLOSED_LOOP, loop=policy))
        loop.run(1)
        assert loop.plant.limits


def test_a_rule_on_usage_is_no_business_of_weights() -> None:
    loop = weighed(0.0, policies=under(line("node_cpu_usage_ratio", "0.5")))
    loop.run(1)
    assert loop.plant.limits


@settings(max_examples=4, deadline=None)
@given(st.floats(0.15, 1), st.integers(0, 2**16))
def test_long_pressure_that_no_quota_relieves_costs_five_samples_per_doubling_wait(level: float, noise: int) -> None:
    """Noise below the least relief: a larger one may pass a trial by chance. A reading that is lower than those of the
    trial before it looks like relief that grows, and one that follows it too: 3 samples become 5 at most."""
    lows = [0.2 * (level - 0.1) * (noise >> (second % 16) & 1) for second in range(250)]
    loop = weighed(*(level - low for low in lows), options=SHORT)
    loop.run(250)
    trials = [when for when, made in loop.done if made.state.throttles]
    starts = [trials[0], *(later for earlier, later in pairwise(trials) if later - earlier > 1)]
    assert starts[0] > 6
    assert len(starts) <= 3
    assert all(later - earlier >= 60 for earlier, later in pairwise(starts))
    assert len(trials) <= 5 * len(starts)


def test_limits_that_helped_come_at_once_the_next_time() -> None:
    loop = helpful()
    loop.run(AFTER + 10)
    loop.plant.prod_demand = 200
    loop.run(60)
    assert not loop.plant.limits
    loop.plant.prod_demand = 1500
    loop.run(2)
    assert loop.plant.limits


@pytest.mark.parametrize(
    ("change", "is_kept"), [("policy", True), ("rule", False), ("weights", False), ("description", False)]
)
def test_a_finding_holds_for_the_same_rule_and_weights(change: str, is_kept: bool) -> None:
    loop = weighed()
    loop.run(AFTER + 6)
    assert any(made.cycle.undone for _, made in loop.done)
    if change == "description":
        loop.state = described_anew(loop.state)
    else:
        loop.state = under_new_rules(loop.state)
    if change == "rule":
        loop.policies = under(line(waterline="0.12"))
    if change == "weights":
        loop.weights = ""
    loop.run(2)
    (effect,) = loop.state.cycle.loop.effects
    assert effect.is_suspended(at(loop.at)) is is_kept
    assert bool(loop.plant.limits) is (change == "weights")


def test_mode_observe_and_back_keeps_the_finding() -> None:
    loop = weighed()
    loop.run(AFTER + 6)
    for mode in (Mode.OBSERVE, Mode.THROTTLE):
        loop.state, loop.options = under_new_rules(loop.state), replace(loop.options, mode=mode)
        loop.run(3)
    assert loop.state.cycle.loop.effects[0].is_suspended(at(loop.at))
    assert not loop.plant.limits


def test_evictions_for_the_same_metric_wait_too() -> None:
    loop = helpful(policies=under(actions=(BOTH, EVICT)), options=replace(CLOSED_LOOP, mode=Mode.EVICT))
    loop.run(AFTER)
    assert not any(kinds(made) for _, made in loop.done)


def test_why_there_is_no_quota_is_recorded_once_and_replays() -> None:
    loop = helpful()
    before, seen = loop.state, replace(loop.view(), sampled_at=at(1), cpu_weights="by-tier-idle")
    made = loop.tick()
    ((plan,), rules) = made.cycle.recorded, Rulebook("nodeqos/default@1", loop.policies)
    record = record_of("d1", plan, made.cycle, DecisionContext("n1", 2000, before, rules, loop.options, at(1), seen))
    inputs = {one.name: one.value for one in record.inputs}
    assert (record.reason, record.rule) == (Reason.THROTTLE_LEFT_TO_WEIGHTS, "prod-cpu")
    assert not plan.carried_out
    assert (inputs["cpu_weights"], inputs["crossed_for"], inputs["quota_after"]) == ("by-tier-idle", 0, AFTER)
    assert [action.pod_uid for action in record.actions] == ["b0"]
    assert record.replay is not None
    steps = cycle_replay.replay(**record.replay.arguments)["steps"]
    assert [one["uid"] for one in steps] == ["b0"]
    assert not any(one.cycle.recorded for one in loop.run(AFTER - 1))


def test_the_quota_that_follows_says_for_how_long_weights_did_not_suffice() -> None:
    loop = helpful()
    loop.run(AFTER)
    before, seen = loop.state, replace(loop.view(), sampled_at=at(loop.at))
    made = loop.tick()
    ((plan,), rules) = made.cycle.recorded, Rulebook("nodeqos/default@1", loop.policies)
    source = DecisionContext("n1", 2000, before, rules, loop.options, at(loop.at), seen)
    record = record_of("d1", plan, made.cycle, source)
    inputs = {one.name: one.value for one in record.inputs}
    assert record.reason == Reason.THROTTLE_WATERLINE_CROSSED
    assert (inputs["crossed_for"], inputs["quota_after"]) == (AFTER, AFTER)


def test_observing_says_the_same_as_throttling() -> None:
    loop = helpful(options=replace(CLOSED_LOOP, mode=Mode.OBSERVE))
    recorded = [plan for made in loop.run(AFTER) for plan in made.cycle.recorded]
    assert len(recorded) == 1
    assert all(made.cycle.left_to_weights for _, made in loop.done)


def test_a_calm_report_ends_the_crossing_though_it_needs_no_pods() -> None:
    loop = weighed(0.5, 0.0)
    loop.run(1)
    calm = replace(loop.view(), pods=())
    assert fast_path(calm, loop.state, loop.policies, at(2)) is None
    loop.run(5)
    assert loop.state.cycle.loop.effects[0].crossing is None


verdicts = st.sampled_from(["triggered", "below", "calm", "missing"])


def _verdict(kind: str) -> RuleVerdict:
    rule = line()
    reading = None if kind == "missing" else rule.waterline
    return RuleVerdict(rule, None, reading, RuleState(rule.key), kind == "triggered", kind == "calm")


@given(st.lists(st.tuples(verdicts, st.floats(-100, 100)), max_size=30))
def test_a_crossing_is_an_unbroken_time_since_a_trigger(samples: list[tuple[str, float]]) -> None:
    now, known, last = 1000.0, None, None
    for kind, seconds in samples:
        now += seconds
        known = crossed(known, _verdict(kind), at(now))
        if kind == "calm":
            assert known is None
        if kind == "triggered":
            assert known is not None
            assert known.at == at(now)
        if known is None:
            last = None
            continue
        assert known.since <= known.at
        if last is not None and known.since == last.since:
            assert 0 <= (known.at - last.at).total_seconds() <= GAP_SECONDS
        last = known


def test_a_finding_depends_on_rule_action_and_weights_and_not_on_the_mode() -> None:
    rule, action = line(), BOTH
    basis = basis_of(rule, action, "by-tier")
    assert basis == basis_of(replace(rule, is_preview=True), action, "by-tier")
    others = ((line(waterline="0.2"), action, "by-tier"), (rule, EVICT, "by-tier"), (rule, action, ""))
    assert basis not in {basis_of(*other) for other in others}


def test_a_crossing_of_long_ago_is_none() -> None:
    since: datetime = at(0)
    assert crossed(Crossed(since, since), _verdict("triggered"), at(GAP_SECONDS + 1)) == Crossed(
        at(GAP_SECONDS + 1), at(GAP_SECONDS + 1)
    )


def test_what_a_finding_depends_on_is_the_same_after_it_was_read_from_a_record() -> None:
    rule = replace(line(), waterline=Decimal("0.10"), cool_down_seconds=60)
    read = TypeAdapter(Rule).validate_python(TypeAdapter(Rule).dump_python(rule, mode="json"))
    assert basis_of(rule, BOTH, "by-tier") == basis_of(replace(read, waterline=Decimal("0.1")), BOTH, "by-tier")
    assert basis_of(rule, BOTH, "by-tier") != basis_of(replace(rule, waterline=Decimal("0.11")), BOTH, "by-tier")
