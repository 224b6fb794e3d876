"""What the pods of simulated machines want, by the wall clock, so that an observer can compute it.

The tide is for scenes: every machine surges at the same time, several times a minute, and batch takes all it can get.
The day is what a fleet that lends looks like: prod has a rhythm, batch wants what it requested, and every fifth machine
surges once a day beyond what it has, one after the other, while a batch job of it is greedy.
"""

from __future__ import annotations

import math
import random
from datetime import datetime
from typing import Final, Literal

Load = Literal["tide", "day"]
TIDE_SECONDS, REST_SECONDS = 18, 10
REST_LOAD, SURGE_LOAD = 0.10, 0.60
DAY_SECONDS: Final = 900
"""A day of the fleet."""
NIGHT_LOAD, NOON_LOAD = 0.10, 0.27
DAY_SURGE_LOAD, DAY_SURGE_SECONDS, SURGES_A_DAY, SURGING_OF = 1.25, 60, 5, 5
"""One machine of SURGING_OF has one surge a day, in one of SURGES_A_DAY turns. Its peak is all of it from then on, so
that it lends nothing; the others always do. A surge lasts longer than an eviction's samples."""
GREED: Final = 6.0
"""How much of its request the greedy job wants during a surge of its machine."""
RESUBMITTED_SECONDS: Final = DAY_SECONDS - 120.0
"""So long after its end the next greedy job comes: an evicted one is submitted again, shortly before the next surge.
The machine lends nothing in between, so a job would be beyond its offer."""


def surging(at: datetime) -> bool:
    """High tide."""
    return at.timestamp() % TIDE_SECONDS >= REST_SECONDS


def surging_by_day(number: int, at: datetime) -> bool:
    """Whether a machine has its surge of the day."""
    second = at.timestamp() % DAY_SECONDS
    part = DAY_SECONDS / SURGES_A_DAY
    turn, within = divmod(second, part)
    own_turn, place = divmod(number - 1, SURGING_OF)
    is_its_turn = place == 0 and int(turn) == own_turn % SURGES_A_DAY
    return is_its_turn and part / 2 <= within < part / 2 + DAY_SURGE_SECONDS


def prod_load(number: int, at: datetime, load: Load = "tide") -> float:
    """What prod wants, as a share of capacity, with five percent of noise that changes by the second."""
    noise = random.Random(number * 1_000_003 + int(at.timestamp())).uniform(0.95, 1.05)
    if load == "tide":
        return (SURGE_LOAD if surging(at) else REST_LOAD) * noise
    if surging_by_day(number, at):
        return DAY_SURGE_LOAD * noise
    rhythm = (1 - math.cos(2 * math.pi * (at.timestamp() % DAY_SECONDS) / DAY_SECONDS)) / 2
    return (NIGHT_LOAD + (NOON_LOAD - NIGHT_LOAD) * rhythm) * noise


def batch_demand(number: int, request_milli: int, is_greedy: bool, at: datetime, load: Load, capacity: float) -> float:
    """What a batch pod wants in milli-cores: all there is, or by day what it requested, within a fifth."""
    if load == "tide":
        return capacity
    if is_greedy and surging_by_day(number, at):
        return request_milli * GREED
    return request_milli * random.Random(f"{number} {request_milli} {int(at.timestamp()) // 30}").uniform(0.8, 1.0)
