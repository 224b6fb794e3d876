"""One decaying histogram in plain Python: the readable truth that the batched matrix is compared with."""

from __future__ import annotations

import math

from slackwater.peaks.buckets import Buckets


class ReferenceHistogram:
    """Follows the fact sheet (section 2.2) sentence by sentence, one sample at a time."""

    def __init__(self, buckets: Buckets, half_life_seconds: float, epsilon: float) -> None:
        self.starts = [float(start) for start in buckets.starts]
        self.find = buckets.find
        self.half_life = half_life_seconds
        self.epsilon = epsilon
        self.weights = [0.0] * buckets.count
        self.total = 0.0
        self.reference = 0.0

    def add(self, bucket: int, at: float, weight: float = 1.0) -> None:
        if at > self.reference + 100 * self.half_life:
            moved = math.floor(at / self.half_life + 0.5) * self.half_life
            factor = 2.0 ** round((self.reference - moved) / self.half_life)
            self.weights = [w * factor for w in self.weights]
            self.total *= factor
            self.reference = moved
        decayed = weight * 2.0 ** ((at - self.reference) / self.half_life)
        self.weights[bucket] += decayed
        self.total += decayed

    def percentile(self, share: float) -> float:
        present = [n for n, weight in enumerate(self.weights) if weight >= self.epsilon]
        if not present:
            return 0.0
        reached = 0.0
        bucket = present[0]
        while bucket < present[-1]:
            reached += self.weights[bucket]
            if reached >= share * self.total:
                break
            bucket += 1
        return self.starts[min(bucket + 1, len(self.starts) - 1)]
