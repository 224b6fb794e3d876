"""Token buckets in virtual time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.bus.consume.token_buckets import RateLimited, TokenBuckets

BURST, EVERY = 20, 10.0


def test_a_burst_and_then_one_in_each_interval() -> None:
    buckets = TokenBuckets[str](BURST, EVERY)
    granted = [second for second in range(101) for _ in range(3) if buckets.acquire("n", float(second))]
    assert len(granted) == BURST + 10
    assert granted[BURST:] == list(range(10, 101, 10))


def test_what_is_refused_is_counted_since_the_first_until_it_is_reported() -> None:
    buckets = TokenBuckets[str](1, EVERY)
    assert buckets.acquire("n", 5.0)
    assert buckets.refused("n") is None
    assert not any(buckets.acquire("n", at) for at in (6.0, 7.0, 8.0))
    assert buckets.refused("n") == RateLimited(3, 6.0)
    assert buckets.acquire("n", 16.0)
    assert buckets.refused("n") == RateLimited(3, 6.0)  # until it is said that the report has come through
    buckets.settle("n")
    assert buckets.refused("n") is None


def test_one_key_takes_nothing_from_another() -> None:
    buckets = TokenBuckets[str](1, EVERY)
    assert buckets.acquire("loud", 0.0)
    assert not buckets.acquire("loud", 0.0)
    assert buckets.acquire("quiet", 0.0)


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1000)), max_size=200))
def test_never_more_than_the_burst_and_what_time_gives_and_never_more_keys_than_allowed(
    takes: list[tuple[int, float]],
) -> None:
    buckets, granted = TokenBuckets[int](3, EVERY, most_keys=8), dict[int, list[float]]()
    single = TokenBuckets[int](3, EVERY)
    for key, at in sorted(takes, key=lambda pair: pair[1]):
        buckets.acquire(key, at)
        if single.acquire(key, at):
            granted.setdefault(key, []).append(at)
    assert len(buckets) <= 8
    for times in granted.values():
        for number, first in enumerate(times):
            assert len(times) - number <= 3 + (times[-1] - first) / EVERY + 1e-6
