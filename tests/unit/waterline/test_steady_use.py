"""What a pod with a limit really goes on with: neither what it caught up with, nor what it was kept from."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import use, view
from waterline_cycle import cycle
from waterline_loop import CLOSED_LOOP as OPTIONS
from waterline_loop import at, pod, seen, under
from waterline_rules import policies, rule

from slackwater.model.tiers import Tier
from slackwater.waterline.actuation.cpu_quota import beyond_milli, steady_milli, waited_milli
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.loop.applied_limits import container_of
from slackwater.waterline.node_guard import GuardState, fast_path, guard
from slackwater.waterline.registry.built_in import NODE_CPU_USAGE, NODE_CPU_USAGE_RATIO
from slackwater.waterline.registry.limited_pods import beyond_limits, set_off

CPU = "node_cpu_usage"


@pytest.mark.parametrize(
    ("usage", "quota_milli", "waiting", "steady", "beyond", "waited"),
    [
        (60, 105, 0.5, 105, 0, 45),  # 60 / (1 - 0.5) = 120, and no more than its limit
        (40, 105, 0.5, 80, 0, 40),
        (40, 105, None, 40, 0, 0),
        (177, 105, 0.5, 105, 72, 0),  # parts of two periods in one sample
        (60, None, 0.5, 60, 0, 0),  # without a limit there is no saying
        (1, 105, 1.0, 105, 0, 104),  # a pod that waited all the time has a task that would run all the time
        (1, 8000, 0.95, 951, 0, 950),  # one task, and no more
        (200, 8000, 0.95, 2000, 0, 1800),  # or ten times what it used
    ],
)
def test_a_limited_pod_goes_on_with_what_it_wanted_within_its_limit(
    usage: int, quota_milli: int | None, waiting: float | None, steady: int, beyond: int, waited: int
) -> None:
    quota = None if quota_milli is None else quota_milli * 100
    one = Container("c", usage, quota, quota, waiting_ratio=waiting)
    assert (steady_milli(one), beyond_milli(one), waited_milli(one)) == (steady, beyond, waited)


def test_what_was_not_measured_is_nothing_of_that() -> None:
    one = Container("c", None, 10_000, waiting_ratio=0.5)
    assert (steady_milli(one), beyond_milli(one), waited_milli(one)) == (None, 0, 0)


@given(st.integers(0, 4000), st.none() | st.integers(1, 4000), st.none() | st.floats(0, 1))
def test_what_it_goes_on_with_is_what_it_used_without_the_one_and_with_the_other(
    usage: int, quota_milli: int | None, waiting: float | None
) -> None:
    one = Container("c", usage, None if quota_milli is None else quota_milli * 100, waiting_ratio=waiting)
    assert steady_milli(one) == usage - beyond_milli(one) + waited_milli(one)
    assert quota_milli is None or steady_milli(one) <= quota_milli
    assert not (beyond_milli(one) and waited_milli(one))


def limited(uid: str, used: int, limit: int, waiting: float | None = None, tier: Tier = Tier.BATCH) -> PodUse:
    return use(uid, tier, used, containers=(container_of(used, 0, limit, None, waiting),))


def test_a_node_reads_no_higher_because_batch_ran_parts_of_two_periods() -> None:
    burst = [limited(f"b{n}", 214, 105) for n in range(8)]
    seen_once = view(*burst, use("p", Tier.PROD, 15), capacity=2000)
    assert beyond_limits(seen_once) == 8 * 109
    assert NODE_CPU_USAGE.read(seen_once)[0].value == 8 * 105 + 15
    assert NODE_CPU_USAGE_RATIO.read(seen_once)[0].value == Decimal(8 * 105 + 15) / 2000
    done = cycle(policies(rule(CPU, 1500)), *burst, **{CPU: 8 * 214})
    assert not done.plan.steps


def test_half_a_second_in_which_some_ran_and_others_waited_reads_as_it_goes_on() -> None:
    """Four pods have run all that they may in this second, and four nothing: 840 all together, before and after."""
    crowd = [limited(f"a{n}", 210, 105, 0.6) for n in range(4)] + [limited(f"b{n}", 0, 105, 1.0) for n in range(4)]
    half = view(*crowd, use("p", Tier.PROD, 1100), capacity=2000)
    assert (beyond_limits(half), set_off(half)) == (0, 420)
    assert NODE_CPU_USAGE.read(half)[0].value == 1940
    done = cycle(policies(rule(CPU, 1720)), *crowd, **{CPU: 1940})
    (demand,) = done.analysis.throttles
    assert (demand.waited_milli, demand.gap) == (0, 220), "what they wait for is what the others had too much"


def test_waiting_beyond_the_surplus_of_other_pods_still_counts() -> None:
    crowd = [limited("a", 205, 105, 0.5), *(limited(f"b{n}", 0, 105, 1.0) for n in range(4))]
    done = cycle(policies(rule(CPU, 1560)), *crowd, **{CPU: 1900})
    (demand,) = done.analysis.throttles
    assert (demand.waited_milli, demand.gap) == (420 - 100, 340 + 320)


def test_prods_use_counts_in_full_whatever_its_limit_is() -> None:
    assert beyond_limits(view(limited("p", 900, 500, tier=Tier.PROD))) == 0


def test_the_first_cut_is_as_deep_as_all_cuts_after_another_would_be() -> None:
    """Eight pods that were kept from half of what they may use: what is released they would take from each other."""
    crowd = [limited(f"b{n}", 60, 105, 0.5) for n in range(8)]
    done = cycle(policies(rule(CPU, 1560)), *crowd, **{CPU: 1900})
    (demand,) = done.analysis.throttles
    assert (demand.waited_milli, demand.gap) == (8 * 45, 340 + 8 * 45)
    released = sum(amount for step in done.plan.of(ActionKind.THROTTLE) for _, amount in step.released)
    assert released == demand.gap
    left = 8 * 105 - released
    assert left == 8 * 60 - 340, "all together may go on with what they used, less the gap"


def test_pressure_counts_no_waiting_of_batch() -> None:
    """What prod lacks it takes first, by its weight."""
    batch = pod("b", cpu=300, original=600)
    plain = guard(seen(pod("p", Tier.PROD, 1000), batch, pressure=0.3), GuardState(), under(), at(0), OPTIONS)
    waiting = replace(batch, containers=(replace(batch.containers[0], waiting_ratio=0.9),))
    other = guard(seen(pod("p", Tier.PROD, 1000), waiting, pressure=0.3), GuardState(), under(), at(0), OPTIONS)
    assert plain.cycle.analysis.throttles[0].gap == other.cycle.analysis.throttles[0].gap


def test_the_fast_path_without_pods_never_calls_a_gap_calm() -> None:
    burst = [limited(f"b{n}", 214, 105) for n in range(8)]
    whole = view(*burst, capacity=2000)
    bare = replace(whole, pods=())
    rules = policies(rule(CPU, 1500))
    assert fast_path(bare, GuardState(), rules, at(0)) is None, "looked at properly"
    assert not guard(whole, GuardState(), rules, at(0), OPTIONS).cycle.plan.steps
