"""One pod down and up again: floors, gaps, and the exact way back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import pod_uses, use

from slackwater.waterline.actuation.cpu_quota import (
    QuotaChange,
    RestoreBounds,
    ThrottleBounds,
    floor_us,
    milli_of,
    restore_cpu,
    throttle_cpu,
)
from slackwater.waterline.facts.pods import Container, PodUse

D = Decimal
ratios = st.integers(0, 100).map(lambda percent: D(percent) / 100)
bounds = st.builds(
    ThrottleBounds,
    min_ratio=ratios,
    step_ratio=ratios,
    request_ratio=ratios,
    min_milli=st.integers(0, 300),
    whole_steps=st.booleans(),
)
gaps = st.none() | st.integers(1, 5000).map(D)


def after(pod: PodUse, changes: Iterable[QuotaChange]) -> PodUse:
    quotas = {change.container: change.after_us for change in changes}
    return replace(
        pod,
        containers=tuple(
            replace(one, quota_us=quotas[one.name]) if one.name in quotas else one for one in pod.containers
        ),
    )


@given(pod_uses(), bounds, gaps)
def test_a_cut_never_raises_and_never_goes_below_its_floor(
    pod: PodUse, limits: ThrottleBounds, gap: Decimal | None
) -> None:
    by_name = {one.name: one for one in pod.containers}
    for change in throttle_cpu(pod, limits, gap):
        held = by_name[change.container]
        assert change.after_us is not None
        assert change.before_us is None or change.after_us < change.before_us
        assert change.after_us >= floor_us(held, limits) >= 1000
        assert change.amount_milli >= 0


@given(pod_uses(), bounds, st.integers(1, 5000).map(D))
def test_precise_cuts_release_no_more_than_the_gap(pod: PodUse, limits: ThrottleBounds, gap: Decimal) -> None:
    changes = throttle_cpu(pod, replace(limits, whole_steps=False), gap)
    assert sum(change.amount_milli for change in changes) <= gap
    assert all(change.amount_milli > 0 for change in changes)


@given(pod_uses(), bounds, gaps, st.integers(1, 100).map(lambda percent: D(percent) / 100), st.booleans())
def test_throttle_and_full_restore_is_the_identity_on_every_file(
    pod: PodUse, limits: ThrottleBounds, gap: Decimal | None, step: Decimal, whole: bool
) -> None:
    present = pod
    for _ in range(3):
        present = after(present, throttle_cpu(present, limits, gap))
    back = RestoreBounds(step, whole, unlimited_at_milli=D(10_000))
    for _ in range(2000):
        changes = restore_cpu(present, back, None)
        if not changes:
            break
        present = after(present, changes)
    assert present == pod


@given(pod_uses(), bounds, st.integers(0, 3000).map(D))
def test_a_restore_gives_no_more_than_the_headroom(pod: PodUse, limits: ThrottleBounds, headroom: Decimal) -> None:
    throttled = after(pod, throttle_cpu(pod, limits, None))
    seen = {one.name: min(one.usage_milli or 0, milli_of(one.quota_us or 10**9, 100_000)) for one in pod.containers}
    limited = replace(
        throttled,
        containers=tuple(replace(one, usage_milli=seen[one.name]) for one in throttled.containers),
    )
    changes = restore_cpu(limited, RestoreBounds(D(1), unlimited_at_milli=D(10_000)), headroom)
    assert sum(change.amount_milli for change in changes) <= headroom


@pytest.mark.parametrize(
    ("container", "limits", "gap", "quota", "released"),
    [
        (Container("c", 3000), ThrottleBounds(), 300, 270_000, 300),
        (Container("c", 3000, 400_000), ThrottleBounds(), 300, 270_000, 300),
        (Container("c", 3000, 200_000), ThrottleBounds(), 300, 170_000, 300),
        (Container("c", 3000), ThrottleBounds(step_ratio=D("0.05")), 300, 285_000, 150),
        (Container("c", 3000), ThrottleBounds(min_milli=2900), 300, 290_000, 100),
        (Container("c", 3000, limit_milli=4000), ThrottleBounds(min_ratio=D("0.7")), 300, 280_000, 200),
        (Container("c", 3000, request_milli=2800), ThrottleBounds(request_ratio=D(1)), 300, 280_000, 200),
        (Container("c", 3000, request_milli=5000), ThrottleBounds(request_ratio=D(1)), 300, None, 0),
        (Container("c", 10), ThrottleBounds(min_milli=0), 300, None, 0),
        (Container("c", 500, limit_milli=50), ThrottleBounds(min_ratio=D("0.1"), min_milli=0), 600, 1000, 490),
        (Container("c", None, 200_000), ThrottleBounds(), 300, None, 0),
        (Container("", 3000), ThrottleBounds(), 300, None, 0),
        (Container("c", 3000, is_readable=False), ThrottleBounds(), 300, None, 0),
        (Container("c", 500, 50_000, period_us=50_000), ThrottleBounds(), 300, 10_000, 300),
    ],
)
def test_how_far_a_container_goes_down(
    container: Container, limits: ThrottleBounds, gap: int, quota: int | None, released: int
) -> None:
    changes = throttle_cpu(use("a", containers=(container,)), limits, D(gap))
    assert [(change.after_us, change.amount_milli) for change in changes] == ([(quota, released)] if quota else [])


def test_the_release_of_a_pod_is_that_of_all_its_containers() -> None:
    pod = use("a", containers=(Container("x", 2000), Container("y", 1000)))
    whole = throttle_cpu(pod, ThrottleBounds(step_ratio=D("0.1"), whole_steps=True), D(1))
    assert [change.amount_milli for change in whole] == [200, 100]
    precise = throttle_cpu(pod, ThrottleBounds(), D(2500))
    assert [(change.container, change.after_us) for change in precise] == [("x", 5000), ("y", 45_000)]


@given(st.integers(1, 100), st.integers(1, 99), st.integers(1, 100), st.none() | st.integers(0, 20))
def test_a_restore_ends_on_the_original_even_between_two_grains(
    grain: int, missing: int, step: int, headroom: int | None
) -> None:
    held = Container("c", 10, 1000, 1000 + missing, grain_us=grain)
    left = None if headroom is None else D(headroom) / 10
    for change in restore_cpu(use("a", containers=(held,)), RestoreBounds(D(step) / 1000), left):
        assert change.after_us is not None
        assert 1000 < change.after_us <= 1000 + missing


def test_a_pod_that_had_no_limit_has_none_again() -> None:
    pod = use("a", containers=(Container("c", 900, 100_000, None),))
    first, second = (RestoreBounds(D(1), unlimited_at_milli=D(top)) for top in (4000, 2000))
    assert restore_cpu(pod, first, None)[0].after_us == 200_000
    assert restore_cpu(pod, second, None)[0].after_us is None
    assert restore_cpu(pod, RestoreBounds(D(1)), None)[0].after_us == 200_000, "the time of that is unknown"
