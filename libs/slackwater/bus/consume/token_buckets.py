"""Token buckets by key, on timestamps given by the caller."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MOST_KEYS = 4096


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Refusals for a key since its last grant. `since` is the time of the first refusal."""

    count: int
    since: float


@dataclass(slots=True)
class _Bucket:
    full_at: float
    """Time at which the bucket is full again if nothing more is taken: exact, where a token count
    would sum up fractions.
    """
    latest: float
    """Latest time that was given: a message that comes after a later one is measured at the later one's time."""
    refused: int = 0
    refused_since: float = 0.0


class TokenBuckets(Generic[K]):
    """Allows a burst of `burst` tokens, then one in `every_seconds`, for each key. Beyond `most_keys` the
    least recently used key is dropped; its bucket is then full again.
    """

    def __init__(self, burst: int, every_seconds: float, most_keys: int = MOST_KEYS) -> None:
        self._burst = burst
        self._every = every_seconds
        self._most_keys = most_keys
        self._buckets: OrderedDict[K, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def acquire(self, key: K, now: float, tokens: int = 1) -> bool:
        """Returns whether an action that takes so many tokens is allowed now; counts a refusal. An action that needs
        more than the burst takes the whole burst.
        """
        bucket, tokens = self._used(key, now), min(tokens, self._burst)
        now = bucket.latest = max(now, bucket.latest)
        if bucket.full_at - now <= (self._burst - tokens) * self._every:
            bucket.full_at = max(bucket.full_at, now) + tokens * self._every
            return True
        if not bucket.refused:
            bucket.refused_since = now
        bucket.refused += 1
        return False

    def charge(self, key: K, now: float, tokens: int) -> None:
        """Take tokens for an action that is done, also where fewer are left; at most `tokens` are owed then."""
        bucket = self._used(key, now)
        now = bucket.latest = max(now, bucket.latest)
        owed_until = now + (self._burst + tokens) * self._every
        bucket.full_at = min(max(bucket.full_at, now) + tokens * self._every, owed_until)

    def refused(self, key: K) -> RateLimited | None:
        """Returns the refusals since `settle`; None if there were none."""
        bucket = self._buckets.get(key)
        return RateLimited(bucket.refused, bucket.refused_since) if bucket is not None and bucket.refused else None

    def settle(self, key: K) -> None:
        """Reset the refusals of a key after they were reported."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.refused = 0

    def _used(self, key: K, now: float) -> _Bucket:
        bucket = self._buckets.pop(key, None) or _Bucket(now, now)
        self._buckets[key] = bucket
        while len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)
        return bucket
