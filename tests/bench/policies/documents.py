"""Two throttle policies for the same surge, as NodeQOS documents: precise, and all or nothing. Pure functions.

Both watch the machine's CPU usage and have the same waterline and cool-down. The precise one is the product's default
behaviour. All or nothing is the common simple policy, expressed as a NodeQOS document as far as possible: with a target
of 0 every candidate is throttled to its floor at once. The product does not restore everything at once regardless of
headroom; here `is_over` decides that and the contest sets mode `observe`, which restores every limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

ALL_OR_NOTHING, PRECISE = "all-or-nothing", "precise"
COOL_DOWN_SECONDS: Final = 3.0
NEVER_BY_ITSELF_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Levels:
    """Waterline and target of a policy, as shares of the machine's CPU.

    Random arrivals vary the usage per second by 5 % of two CPUs (one standard deviation). The target is two standard
    deviations below the waterline, so that random variation alone does not trigger another throttle.
    """

    waterline: float
    target: float


COMPARED: Final = Levels(0.76, 0.66)
"""Waterline for a service with latencies of milliseconds. Closer to saturation the cost of deciding and recording, 2.5
% of two CPUs, raises its p99 by a quarter (decision 0148)."""
FULL: Final = Levels(0.86, 0.76)
"""Waterline close to saturation, for measuring the reaction time."""
_RULE, _METRIC = "machine-cpu", "node_cpu_usage_ratio"


def document(present: Mapping[str, Any], policy: str, levels: Levels = COMPARED) -> dict[str, Any]:
    """The cluster's NodeQOS `present` with its policy replaced by one of the two."""
    precise = policy == PRECISE
    rule = {
        "name": _RULE,
        "metricRule": {"name": _METRIC, "value": levels.waterline, "target": levels.target if precise else 0},
        "coolDownSeconds": COOL_DOWN_SECONDS if precise else NEVER_BY_ITSELF_SECONDS,
    }
    throttle = {"excessRatio": 0.0, "minCpuMilli": 10, "headroomMarginRatio": round(1 - levels.target, 3)}
    if not precise:
        throttle["relapseSeconds"] = 0  # the contest restores, so there is no relapse to delay for
    spec = {"mode": "throttle", "weights": "by-tier-idle", "rules": [rule], "throttle": throttle}
    return {**present, "spec": spec}


def released(present: Mapping[str, Any]) -> dict[str, Any]:
    """The same document in mode `observe`, which restores every limit at once."""
    return {**present, "spec": {**present["spec"], "mode": "observe"}}


def is_over(now: float, last_above: float, *, throttled: bool) -> bool:
    """Whether all or nothing restores now: the cool-down since the machine was last above the waterline is over."""
    return throttled and now - last_above >= COOL_DOWN_SECONDS
