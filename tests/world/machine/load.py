"""What pods want of their machine: CPU, memory and page cache as functions of virtual time, and how they end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from slackwater.model.tiers import Tier

_NOISE = 0.05
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Surge:
    """More demand than the pattern predicts, from `begins` for `seconds`, as a factor."""

    begins: float
    seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class Load:
    """Demand of one pod. CPU in milli-cores, memory in bytes; `day_seconds` is the length of the pattern.

    A pod that `ignores_term` ends with SIGKILL only, and `kill_seconds` after it; one that `forks` leaves a child that
    does the same with a tenth of the demand. `ends_at` is the virtual time of its own end.
    """

    seed: int
    cpu_milli: float
    swing: float = 0.0
    day_seconds: float = 300.0
    phase: float = 0.0
    surges: tuple[Surge, ...] = ()
    anonymous_bytes: int = 64 * _MIB
    growth_per_second: int = 0
    most_bytes: int = 256 * _MIB
    cache_bytes: int = 0
    term_seconds: float = 0.2
    ignores_term: bool = False
    forks: bool = False
    kill_seconds: float = 0.0
    ends_at: float = math.inf

    def cpu(self, at: float) -> float:
        """What it wants at a time; noise of five percent that changes by the second."""
        want = self.cpu_milli * (1 + self.swing * math.sin(2 * math.pi * at / self.day_seconds + self.phase))
        for surge in self.surges:
            if surge.begins <= at < surge.begins + surge.seconds:
                want *= surge.factor
        noise = ((int(at) * 2_654_435_761 ^ self.seed * 40_503) & 0xFFFF) / 0xFFFF
        return max(0.0, want * (1 - _NOISE + 2 * _NOISE * noise))

    def memory(self, age_seconds: float) -> int:
        """What it holds that cannot be dropped."""
        return min(self.most_bytes, self.anonymous_bytes + int(self.growth_per_second * age_seconds))


def draw_load(rng: Random, tier: Tier, request_milli: int, request_bytes: int, now: float, horizon: float) -> Load:
    """A load of a tier. Prod follows a day and surges now and then; the others take what they get, and end."""
    if tier is Tier.PROD:
        surges = tuple(
            Surge(now + rng.uniform(0, horizon), rng.uniform(5, 60), rng.uniform(1.5, 4.0))
            for _ in range(rng.choice((0, 0, 1, 2)))
        )
        return Load(
            rng.randrange(1 << 16),
            request_milli * rng.uniform(0.2, 0.9),
            swing=rng.uniform(0.0, 0.8),
            day_seconds=rng.uniform(60, 600),
            phase=rng.uniform(0, 2 * math.pi),
            surges=surges,
            anonymous_bytes=int(request_bytes * rng.uniform(0.2, 0.6)),
            growth_per_second=rng.choice((0, 0, 0, request_bytes // 900)),
            most_bytes=int(request_bytes * rng.uniform(0.7, 1.0)),
            cache_bytes=int(request_bytes * rng.uniform(0.0, 1.0)),
            kill_seconds=rng.choice((0.0, 0.0, 0.3)),
        )
    return Load(
        rng.randrange(1 << 16),
        request_milli * rng.uniform(0.5, 4.0),
        anonymous_bytes=int(request_bytes * rng.uniform(0.1, 0.5)),
        growth_per_second=rng.choice((0, 0, request_bytes // 300)),
        most_bytes=int(request_bytes * rng.uniform(0.6, 0.95)),
        cache_bytes=int(request_bytes * rng.uniform(0.0, 2.0)),
        term_seconds=rng.uniform(0.05, 8.0),
        ignores_term=rng.random() < 0.25,
        forks=rng.random() < 0.1,
        kill_seconds=rng.choice((0.0, 0.0, 0.2, 7.0)),
        ends_at=now + rng.expovariate(1 / (horizon / 2)) if rng.random() < 0.6 else math.inf,
    )
