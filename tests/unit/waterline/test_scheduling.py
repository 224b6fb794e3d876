"""Closing a node for new pods, as a state machine: every history of readings, rules and modes."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import view
from waterline_rules import CLOSE, EVICT, at, policies, rule

from slackwater.decisions.reasons import Mode
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.analysis.analyzer import AnalyzerState, analyse
from slackwater.waterline.analysis.scheduling import Scheduling, reopened, under
from slackwater.waterline.cycle import allowed
from slackwater.waterline.policies.values import Policies, PolicyAction, Rule
from slackwater.waterline.registry.built_in import BUILT_IN

COOL = 30.0
QUIET = PolicyAction("quiet", disables_scheduling=False)
CLOSING = replace(CLOSE, cool_down_seconds=COOL)
KNOWN = (CLOSING, QUIET, EVICT)


def rules(*chosen: str, line: int = 500) -> tuple[Rule, ...]:
    return tuple(rule("node_cpu_usage", line, action, name=f"r-{action}", restore_threshold=2) for action in chosen)


choices = st.sampled_from([(), ("quiet",), ("close",), ("close", "quiet"), ("close", "evict")])
histories = st.lists(
    st.tuples(st.none() | st.sampled_from([400, 600]), choices, st.sampled_from(list(Mode)), st.integers(1, 60)),
    max_size=25,
)


@given(histories)
@settings(max_examples=200)
def test_a_node_is_closed_only_while_a_rule_that_may_close_it_holds_it(
    history: list[tuple[int | None, tuple[str, ...], Mode, int]],
) -> None:
    state, now = AnalyzerState(), 0.0
    for reading, chosen, mode, pause in history:
        now += pause
        given_policies = allowed(policies(*rules(*chosen), actions=KNOWN), mode)
        node = view(at=now, node_cpu_usage=reading, node_cpu_usage_ratio=None)
        before = state.scheduling
        step = analyse(node, given_policies, BUILT_IN, state, at(now)).scheduling
        state = analyse(node, given_policies, BUILT_IN, state, at(now)).state
        after = step.scheduling
        may = {one.key for policy in given_policies.nodes for one in policy.rules if one.action in ("close", "evict")}
        may -= {one.key for policy in given_policies.nodes for one in policy.rules if one.is_preview}
        if after.is_disabled:
            assert set(after.because) & may, "a rule that may cordon holds it"
            assert after.last_trigger_at is not None
        if reading == 600 and may:
            assert after.is_disabled
        assert (step.event == "disabled") == (after.is_disabled and not before.is_disabled)
        assert (step.event == "enabled") == (before.is_disabled and not after.is_disabled)


@given(st.integers(2, 20), st.integers(1, 20))
def test_calm_for_long_enough_always_opens(samples: int, every: int) -> None:
    """Level, not edge: whenever calm came, the node opens with the first sample after the cool-down."""
    state = AnalyzerState()
    one = policies(*rules("close"), actions=KNOWN)
    for number, reading in enumerate([600] + [400] * (samples + int(COOL) // every + 2)):
        made = analyse(view(at=number * every, node_cpu_usage=reading), one, BUILT_IN, state, at(number * every))
        state = made.state
        over = number * every > COOL and number >= 2
        assert made.scheduling.scheduling.is_disabled == (not over)


@given(st.lists(st.sampled_from(["nq.r-close", "nq.r-evict", "nq.gone"]), unique=True, min_size=1), choices)
def test_other_rules_open_at_once_what_none_of_them_may_hold(because: list[str], chosen: tuple[str, ...]) -> None:
    before = Scheduling(True, at(0), tuple(because))
    step = under(before, policies(*rules(*chosen), actions=KNOWN), {})
    left = {key for key in because if key.removeprefix("nq.r-") in chosen}
    assert set(step.scheduling.because) == left
    assert step.scheduling.is_disabled == bool(left)
    assert (step.event == "enabled") == (not left)
    assert under(Scheduling(), Policies(), {}) == under(reopened(Scheduling()), Policies(), {})


def test_rules_for_other_nodes_and_previews_hold_nothing() -> None:
    before = Scheduling(True, at(0), ("nq.r-close",))
    own = policies(*rules("close"), actions=KNOWN)
    elsewhere = replace(
        own, nodes=tuple(replace(one, selector=LabelSelector(match_labels={"a": "b"})) for one in own.nodes)
    )
    assert under(before, own, {}).scheduling.is_disabled
    assert under(before, elsewhere, {"a": "b"}).scheduling.is_disabled
    assert not under(before, elsewhere, {}).scheduling.is_disabled
    assert not under(before, allowed(own, Mode.OBSERVE), {}).scheduling.is_disabled
    assert under(before, replace(own, actions=(replace(CLOSING, disables_scheduling=False),)), {}).event is not None


def test_previews_are_named_as_what_would_close() -> None:
    one = policies(*rules("close", "quiet"), actions=KNOWN)
    made = analyse(view(node_cpu_usage=600), allowed(one, Mode.OBSERVE), BUILT_IN, AnalyzerState(), at(0))
    assert made.would_close == ("nq.r-close",)
    assert not made.scheduling.scheduling.is_disabled
    assert analyse(view(node_cpu_usage=600), one, BUILT_IN, AnalyzerState(), at(0)).would_close == ()
    assert Decimal(500) == one.nodes[0].rules[0].waterline
