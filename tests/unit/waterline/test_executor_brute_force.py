"""Exactly as far as the gap, against brute force: the chosen pods, the amounts released, and the pods never chosen."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import crowds, view
from waterline_cycle import CPU, MEMORY, batch_crowds, closes, cycle, evicted
from waterline_rules import policies, rule

from slackwater.model.tiers import Tier
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import CPU as CPU_CHAIN
from slackwater.waterline.registry.limited_pods import beyond_limits


@given(batch_crowds, st.integers(1, 2500), st.integers(0, 2500))
def test_no_part_of_the_evicted_closes_the_gaps_alone(crowd: list[PodUse], cpu: int, memory: int) -> None:
    rules = policies(rule(CPU, 1000, "evict"), rule(MEMORY, 1000, "evict"))
    done = cycle(rules, *crowd, **{CPU: 1000 + cpu, MEMORY: 1000 + memory})
    chosen = [pod for pod in crowd if pod.uid in evicted(done)]
    open_gaps = [one for one in done.plan.remaining if not one.is_closed]
    if open_gaps:
        assert not closes(crowd, cpu, memory), "a pod was left that could have helped"
        assert all(one.because for one in open_gaps)
        return
    assert closes(chosen, cpu, memory)
    for size in range(len(chosen)):
        for part in combinations(chosen, size):
            assert not closes(part, cpu, memory)


@given(batch_crowds, st.integers(1, 2500))
def test_the_evicted_are_the_shortest_prefix_that_closes_the_gap_without_those_it_can_do_without(
    crowd: list[PodUse], gap: int
) -> None:
    """Brute force: every prefix of the order, then every part of the shortest that suffices."""
    done = cycle(policies(rule(CPU, 1000, "evict")), *crowd, **{CPU: 1000 + gap})
    order = [pod for pod in CPU_CHAIN.order(crowd) if pod.cpu_usage_milli]
    prefixes = [order[:size] for size in range(len(order) + 1)]
    enough = next((one for one in prefixes if closes(one, gap, 0)), order)
    chosen = set(evicted(done))
    assert chosen <= {pod.uid for pod in enough}
    if not closes(order, gap, 0):
        assert chosen == {pod.uid for pod in order}, "all that could help did"
        return
    assert enough[-1].uid in chosen, "without the last of the prefix it does not suffice"
    parts = (part for size in range(len(chosen)) for part in combinations(enough, size))
    assert not any(closes(part, gap, 0) for part in parts if {pod.uid for pod in part} < chosen)


def above(crowd: list[PodUse], gap: int) -> Decimal:
    """A reading that is above the waterline by the gap without what was used beyond limits."""
    return 1000 + gap + beyond_limits(view(*crowd))


@settings(max_examples=40)
@given(crowds, st.integers(1, 12_000))
def test_the_throttled_pods_are_a_prefix_of_those_that_can_release_anything(crowd: list[PodUse], gap: int) -> None:
    done = cycle(policies(rule(CPU, 1000)), *crowd, **{CPU: above(crowd, gap)})
    taken = [step.uid for step in done.plan.of(ActionKind.THROTTLE)]
    closed = {one.uid for one in done.plan.spared if one.because == "the gap is closed"}
    order = [pod.uid for pod in CPU_CHAIN.order(crowd) if pod.uid in {*taken, *closed}]
    assert order[: len(taken)] == taken, "no pod that can release anything is passed over"
    if done.plan.remaining[0].is_closed:
        asked = [one.pod.uid for one in done.analysis.throttles[0].candidates]
        assert set(asked[asked.index(taken[-1]) + 1 :]) == closed, "told so"
    released = [sum(amount for _, amount in step.released) for step in done.plan.of(ActionKind.THROTTLE)]
    assert all(amount > 0 for amount in released)
    wanted = gap + done.analysis.throttles[0].waited_milli
    assert not released or sum(released[:-1]) < wanted, "the gap was open when the last was asked"


@given(batch_crowds, st.integers(1, 2500))
def test_never_more_than_one_pod_beyond_what_was_needed(crowd: list[PodUse], gap: int) -> None:
    done = cycle(policies(rule(CPU, 1000, "evict")), *crowd, **{CPU: 1000 + gap})
    released = [amount for step in done.plan.of(ActionKind.EVICT) for _, amount in step.released]
    assert not released or sum(released) - max(released) < gap
    assert all(amount > 0 for amount in released), "no pod is evicted in vain"


@given(crowds, st.integers(1, 12_000))
def test_a_throttle_releases_exactly_the_gap_or_says_why_not(crowd: list[PodUse], above_by: int) -> None:
    done = cycle(policies(rule(CPU, 1000)), *crowd, **{CPU: above(crowd, above_by)})
    (left,) = done.plan.remaining
    gap = above_by + done.analysis.throttles[0].waited_milli
    released = sum(amount for step in done.plan.of(ActionKind.THROTTLE) for _, amount in step.released)
    assert left.released == released == gap - (left.open or 0)
    assert all(dict(step.released)[CPU] == sum(one.amount_milli for one in step.changes) for step in done.plan.steps)
    assert bool(left.because) == (not left.is_closed)
    if not left.is_closed:
        again = {step.uid for step in done.plan.steps}
        assert all(one.because for one in done.plan.spared if one.uid not in again)


@settings(max_examples=30)
@given(crowds, st.integers(1001, 9000), st.integers(1001, 9000))
def test_the_same_input_gives_the_same_plan(crowd: list[PodUse], cpu: int, memory: int) -> None:
    rules = policies(rule(CPU, 1000), rule(CPU, 2000, "evict"), rule(MEMORY, 1000, "evict"))
    one = cycle(rules, *crowd, **{CPU: cpu, MEMORY: memory})
    other = cycle(rules, *reversed(crowd), **{CPU: cpu, MEMORY: memory})
    assert one.plan.steps == other.plan.steps
    assert one.plan.remaining == other.plan.remaining
    assert one.state == other.state


@settings(max_examples=30)
@given(crowds, st.integers(1001, 9000), st.integers(1001, 9000))
def test_protected_pods_are_never_chosen_and_every_other_is_chosen_or_has_a_reason(
    crowd: list[PodUse], cpu: int, memory: int
) -> None:
    rules = policies(rule(CPU, 1000), rule(CPU, 2000, "evict"), rule(MEMORY, 1000, "evict"))
    done = cycle(rules, *crowd, **{CPU: cpu, MEMORY: memory})
    by_uid = {pod.uid: pod for pod in crowd}
    assert all(by_uid[step.uid].tier in (Tier.BATCH, Tier.FREE) for step in done.plan.steps)
    told = {one.uid for one in done.plan.spared} | {step.uid for step in done.plan.steps}
    assert told == set(by_uid)
