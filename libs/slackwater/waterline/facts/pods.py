"""One pod as a candidate: identity, usage, limits, and protections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.amounts import Number

PERIOD_US = 100_000
"""The kernel's default CFS period."""


@record(frozen=True, slots=True)
class Container:
    """A place where a CPU quota is written. On plain Linux a pod has exactly one.

    usage_milli        in the last sampling interval; None = not measured, so it is left alone
    quota_us           in force, microseconds per period; None = unlimited
    original_quota_us  before any throttle by Slackwater; None = unlimited
    request_milli      requested plain CPU; None = nothing
    limit_milli        the declared limit; None = none
    is_readable        False: the quota in force could not be read, so nothing is written
    grain_us           quotas are only written in multiples of this
    waiting_ratio      share of that interval in which a task of it waited for a CPU (PSI); None = not measured
    """

    name: str
    usage_milli: Number | None = None
    quota_us: int | None = None
    original_quota_us: int | None = None
    period_us: int = PERIOD_US
    request_milli: int | None = None
    limit_milli: int | None = None
    is_readable: bool = True
    grain_us: int = 1
    waiting_ratio: Number | None = None


@record(frozen=True, slots=True)
class PodUse:
    """A pod on the node. None means not measured or not declared, which differs from 0.

    extended_*           batch resources: what the pod uses, asked for and may use at most
    usages               anything else that is measured per pod, by a name that metrics of one's own agree on
    is_static, is_system started by the node itself, or part of the platform
    is_own               the agent's own pod
    is_terminating       termination has begun
    is_active            neither finished nor failed
    eviction_priority    order among equals, by annotation: lower values are evicted first
    label_priority       a second priority by label; the pod's own where there is none
    eviction_policies    the only ways in which the pod lets itself be evicted; None = all
    reclaimable_bytes    page cache beside memory_usage_bytes; None = not measured, so its memory is not throttled
    memory_high_bytes    the upper memory level in force (None = unlimited), set by Slackwater at memory_high_since;
                         original_memory_high_bytes the one before
    """

    uid: str
    name: str
    namespace: str = "default"
    tier: Tier | None = None
    qos: QoSClass | None = None
    priority: int | None = None
    started_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu_usage_milli: Number | None = None
    memory_usage_bytes: Number | None = None
    cpu_request_milli: int = 0
    extended_cpu_usage_milli: Number | None = None
    extended_cpu_request_milli: int = 0
    extended_cpu_limit_milli: int = 0
    extended_memory_request_bytes: int = 0
    extended_memory_limit_bytes: int = 0
    usages: Mapping[str, Number] = field(default_factory=dict)
    containers: tuple[Container, ...] = ()
    is_static: bool = False
    is_system: bool = False
    is_own: bool = False
    is_terminating: bool = False
    is_active: bool = True
    eviction_priority: int = 0
    label_priority: int | None = None
    eviction_enabled: bool | None = None
    eviction_policies: frozenset[str] | None = None
    reclaimable_bytes: Number | None = None
    memory_high_bytes: int | None = None
    original_memory_high_bytes: int | None = None
    memory_high_since: datetime | None = None
