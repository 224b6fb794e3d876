"""How limits come back is said by the metric that had them lowered, within what the loop allows; and where its own way
fails, in the built-in one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from waterline_loop import CLOSED_LOOP, at, held, line, pod, seen, under

from slackwater.waterline.actuation.cpu_quota import QuotaChange, RestoreBounds, restore_cpu, throttle_cpu
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.restore import restore_quotas
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import Throttled, limits_of
from slackwater.waterline.node_guard import GuardResult, guard
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Dimension, Metric, MetricResource, Restore
from slackwater.waterline.registry.plugin_sandbox import sandboxed

STEP_MILLI = 100


def by_a_hundred(pod: PodUse, _bounds: RestoreBounds, _headroom: Decimal | None) -> tuple[QuotaChange, ...]:
    """A tenth of a core at a time, whatever there is."""
    (container,) = pod.containers
    before, original = container.quota_us, container.original_quota_us
    assert before is not None
    after = before + STEP_MILLI * container.grain_us
    after_us = original if original is not None and after > original else after
    return (QuotaChange(pod.uid, container.name, before, after_us, container.period_us, Decimal(STEP_MILLI)),)


def broken(*_: object) -> Any:
    raise RuntimeError("no such file")


def to(quota_us: int | None, **fields: Any) -> Restore:
    """Straight to that quota."""
    return lambda pod, bounds, left: tuple(
        replace(one, after_us=quota_us, **fields) for one in by_a_hundred(pod, bounds, left)
    )


def mine(restore: Restore, name: str = "mine", priority: int = 5) -> Metric:
    return Metric(
        name,
        Dimension.NUMBER,
        resource=MetricResource.CPU,
        action_priority=priority,
        release=lambda _view, reading, target: (reading - target) * 10,
        throttle=throttle_cpu,
        restore=restore,
        throttle_quantified=True,
    )


def given(*metrics: Metric, limit: int = 300, original: int | None = 700) -> GuardResult:
    """One calm look at a node that is idle but for a pod with a limit of ours."""
    ours = Throttled("b", "name-b", "batch", limit, original)
    view = replace(seen(pod("b", cpu=limit, ours=ours), pressure=0.0, when=100), prod_usage_milli=0)
    view = replace(
        view, readings={**view.readings, **{one.name: view.readings["prod_cpu_pressure"] for one in metrics}}
    )
    rules = under(*(line(one.name, "50", name=one.name) for one in metrics))
    made = view, held(limit, original=original, last_trigger_at=at(0)), rules
    for when in (100, 101):
        look = replace(made[0], sampled_at=at(when))
        done = guard(look, made[1], rules, at(when), CLOSED_LOOP, BUILT_IN.with_metrics(*metrics))
        made = look, done.state, rules
        if done.cycle.plan.of(ActionKind.RESTORE):
            break
    return done


def raised(done: GuardResult) -> list[tuple[int | None, int | None]]:
    return [limits_of(step) for step in done.cycle.plan.of(ActionKind.RESTORE)]


def test_the_metric_says_how_far_limits_rise_and_the_last_step_is_forgotten() -> None:
    assert raised(given(mine(restore_cpu))) == [(300, 700)], "the built-in way gives all of it back here"
    done = given(mine(by_a_hundred))
    assert raised(done) == [(300, 400)]
    assert [one.limit_milli for one in done.state.throttles] == [400]
    last = given(mine(by_a_hundred), limit=650)
    assert (raised(last), last.state.throttles) == ([(650, 700)], ())
    assert last.cycle.plan.of(ActionKind.RESTORE)[0].released == (("cpu", Decimal(50)),), (
        "what it costs is counted here"
    )


def test_of_two_the_one_of_the_higher_priority_says_it() -> None:
    first, second = mine(by_a_hundred, "first", 7), mine(to(500 * 100), "second", 6)
    assert raised(given(first, second)) == [(300, 400)]
    assert raised(given(second, replace(first, action_priority=5))) == [(300, 500)]


def test_it_gets_no_more_than_the_loop_allows() -> None:
    """A step is a tenth of two cores, and someone else has the rest of them."""
    ours = Throttled("b", "name-b", "batch", 300, 1900)
    crowded = seen(pod("b", cpu=300, ours=ours), pod("o", cpu=1200), pressure=0.0, when=100)
    readings = {**crowded.readings, "mine": crowded.readings["prod_cpu_pressure"]}
    rules = under(line("mine", "50", name="mine"))
    found = []
    for way in (by_a_hundred, to(1900 * 100)):
        state = held(300, original=1900, last_trigger_at=at(0))
        for when in (100, 101):
            look = replace(crowded, readings=readings, sampled_at=at(when))
            done = guard(look, state, rules, at(when), CLOSED_LOOP, BUILT_IN.with_metrics(mine(way)))
            state = done.state
            found += raised(done)
    assert found == [(300, 400)]


@pytest.mark.parametrize(
    "way",
    [
        broken,
        to(20 * 100),  # lower than it is
        to(701 * 100),  # beyond what it was
        to(350 * 100 + 1),  # not a whole milli-core
        to(None),  # no limit, where there was one
        to(400 * 100, uid="another"),
        to(400 * 100, container="another"),
        to(400 * 100, before_us=1),
        to(400 * 100, amount_milli=Decimal("NaN")),
        lambda *_: None,
        lambda *_: (5,),
    ],
)
def test_a_way_that_fails_is_replaced_by_the_built_in_one(way: Restore) -> None:
    known = sandboxed(mine(way)).restore
    assert known is not None
    one = pod("b", cpu=300, ours=Throttled("b", "name-b", "batch", 300, 700))
    assert known(one, RestoreBounds(), None) == restore_cpu(one, RestoreBounds(), None)
    assert raised(given(sandboxed(mine(way)))) != []


def test_a_way_that_works_is_left_alone_and_so_is_not_now() -> None:
    one = pod("b", cpu=300, ours=Throttled("b", "name-b", "batch", 300, 700))
    for way in (by_a_hundred, to(700 * 100), lambda *_: ()):
        known = sandboxed(mine(way)).restore
        assert known is not None
        assert known(one, RestoreBounds(), None) == way(one, RestoreBounds(), None)
    assert sandboxed(mine(restore_cpu)).restore is restore_cpu


def test_outside_of_the_loop_it_is_asked_as_well() -> None:
    done = given(mine(by_a_hundred))
    (restorable,) = done.cycle.analysis.restorable
    (step,), spared = restore_quotas([restorable], {})
    assert (limits_of(step), spared) == ((300, 400), ())
