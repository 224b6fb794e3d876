"""What an operator may set: rules with their waterlines, and how far throttling may go."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.decisions.reasons import Mode

KERNEL_MINIMUM_MILLI = 10
"""The kernel refuses a CFS quota below 1 ms; at the usual period of 100 ms that is 10 milli-cores."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One waterline: `metric` strictly above `waterline` for `avoidance_threshold` consecutive samples triggers,
    at or below it for `restore_threshold` consecutive samples restores, and keeps restoring while it lasts.

    `cool_down_seconds` counts from the last triggered sample; before it is over nothing is given back.
    """

    name: str
    metric: str
    waterline: float
    avoidance_threshold: int = 1
    restore_threshold: int = 2
    cool_down_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class ThrottlePolicy:
    """How limits move. Ratios are 0..1 unless they say otherwise.

    excess_ratio          how much more than the gap may be released (hysteresis; the gap is a lower bound)
    min_cpu_milli         no limit is set below this,
    min_request_ratio     nor below this share of the pod's request
    min_change_ratio      a change smaller than this share of capacity is not worth a write
    step_ratio            share of capacity given back per cycle
    release_ratio         prod usage at or below this share of its demand at the trigger: the demand is gone
    headroom_margin_ratio share of capacity that stays idle when limits rise although the demand is still high
    settle_seconds        a sample counts only if it ends this long after the last write was observed
    pending_seconds       a write that nobody confirmed for so long is no longer waited for
    relapse_seconds       a trigger this soon after a raise blames the raise: the next ones come later and smaller
    probe_seconds         calm for so long allows small raises, up to the originals, whatever prod uses:
    probe_ratio           this share of capacity per cycle
    """

    excess_ratio: float = 0.10
    min_cpu_milli: int = 50
    min_request_ratio: float = 0.0
    min_change_ratio: float = 0.01
    step_ratio: float = 0.5
    release_ratio: float = 0.7
    headroom_margin_ratio: float = 0.05
    settle_seconds: float = 0.5
    pending_seconds: float = 10.0
    relapse_seconds: float = 10.0
    probe_seconds: float = 60.0
    probe_ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class WaterlinePolicy:
    """All that the planner needs of a NodeQOS document. `name` and `generation` say which one it was."""

    name: str
    generation: int
    mode: Mode
    rules: tuple[Rule, ...]
    throttle: ThrottlePolicy = ThrottlePolicy()

    @property
    def allows_throttles(self) -> bool:
        return self.mode is not Mode.OBSERVE
