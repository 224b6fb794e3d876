"""What the planner sees of a node: one report, reduced to what decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slackwater.model.tiers import QoSClass, Tier


@dataclass(frozen=True, slots=True)
class PodSample:
    """One pod: who it is and what it used in the last sampling interval, in milli-cores.

    `original_limit_milli` is the limit that it had before any throttle of ours (None = unlimited).
    """

    uid: str
    name: str
    tier: Tier
    qos: QoSClass
    priority: int
    request_milli: int
    usage_milli: int
    original_limit_milli: int | None
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One node at `sampled_at`, the end of the last sampling interval.

    `prod_pressure` is the share (0..1) of that interval in which some prod task waited for a CPU; None = unknown.
    `usage_milli` None = unknown. `report_id` is the event that carried it.
    """

    node: str
    report_id: str
    sampled_at: datetime
    capacity_milli: int
    usage_milli: int | None
    prod_usage_milli: int
    prod_pressure: float | None
    pods: tuple[PodSample, ...]
