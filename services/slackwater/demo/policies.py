"""Two ways to answer the same surge, as documents that an operator could apply: exactly, and all or nothing. Pure.

Both watch the machine's CPU use, step in above the same waterline and wait for the same cool-down. The precise one is
the product as it is. All or nothing is the simple policy of the field, rendered as our own document as far as it goes:
a target of 0 asks for everything that batch uses, so each candidate goes to its floor at once. What the product refuses
to do, to give everything back at once whatever the machine has to spare, `is_over` decides and the director carries
out: mode `observe` gives back every limit.
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
    """Shares of the machine's CPU: above which a policy steps in, and what it releases down to. Requests that arrive at
    random make a second differ by 5 % of two CPUs, one standard deviation: the target lies two below the waterline, so
    that chance does not ask for more."""

    waterline: float
    target: float


COMPARED: Final = Levels(0.76, 0.66)
"""Where a service that answers within milliseconds would be kept: nearer to full, what it costs to decide and to write
down, 2.5 % of two CPUs, moves its p99 by a quarter (decision 0061)."""
FULL: Final = Levels(0.86, 0.76)
"""Nearly all of the machine: what reacting takes is measured here."""
_RULE, _METRIC = "machine-cpu", "node_cpu_usage_ratio"


def document(present: Mapping[str, Any], policy: str, levels: Levels = COMPARED) -> dict[str, Any]:
    """The cluster's NodeQOS `present` with one of the two policies instead of its own."""
    precise = policy == PRECISE
    rule = {
        "name": _RULE,
        "metricRule": {"name": _METRIC, "value": levels.waterline, "target": levels.target if precise else 0},
        "coolDownSeconds": COOL_DOWN_SECONDS if precise else NEVER_BY_ITSELF_SECONDS,
    }
    throttle = {"excessRatio": 0.0, "minCpuMilli": 10, "headroomMarginRatio": round(1 - levels.target, 3)}
    if not precise:
        throttle["relapseSeconds"] = 0  # its give-back is none of the product's, and nothing to be more patient for
    spec = {"mode": "throttle", "weights": "by-tier-idle", "rules": [rule], "throttle": throttle}
    return {**present, "spec": spec}


def released(present: Mapping[str, Any]) -> dict[str, Any]:
    """The same document in mode `observe`: every limit goes back at once."""
    return {**present, "spec": {**present["spec"], "mode": "observe"}}


def is_over(now: float, last_above: float, *, throttled: bool) -> bool:
    """All or nothing: whether everything goes back now, the cool-down since the machine was last above being over."""
    return throttled and now - last_above >= COOL_DOWN_SECONDS
