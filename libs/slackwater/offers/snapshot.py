"""All inputs of a node's offers at one time."""

from __future__ import annotations

from slackwater.model.quantities import Resources
from slackwater.model.records import record

RESOURCES = ("cpu", "memory")
HIGH_TIERS = ("prod", "mid")
LOWER_TIERS = frozenset({"batch", "free"})
"""Tiers that hold nothing against an offer. Any other tier, or none, counts as prod."""


@record(frozen=True, slots=True)
class PodInput:
    """A pod's claim: current p95 (None: not measured), predicted peak (None: none), and whether that is cold.

    `numa` are its assigned NUMA nodes (empty: any). `listed` False: measured, but not listed as a pod of the node, so
    it has no request. `bound_seconds_ago` is the time since the pod was bound to the node, None if unknown.
    """

    uid: str
    tier: str
    qos: str
    request: Resources
    usage: Resources | None
    predicted: Resources | None = None
    cold: bool = False
    numa: tuple[int, ...] = ()
    listed: bool = True
    bound_seconds_ago: float | None = None


@record(frozen=True, slots=True)
class HostApp:
    """An application outside pods, and its current p95, which is not part of the system's usage."""

    name: str
    tier: str
    usage: Resources


@record(frozen=True, slots=True)
class Zone:
    """A NUMA node, and the part of it that pods can use."""

    name: str
    allocatable: Resources


@record(frozen=True, slots=True)
class NodeSnapshot:
    """All inputs of an offer. `system` None: never measured; `system_is_current` False: an older value.

    `age_seconds` is the age of the usage, `lost` that the node was declared lost. `is_whole` False: newer usage was
    received but is incomplete, so it does not count as fresher. `capacity` and `allocatable` are raw, before any
    amplification; `allocatable` None: the capacity less the reservation. `node_usage` is the usage of everything, None
    if not measured. `prod_peak` is the predicted combined peak of all predicted prod pods, None if only single pods
    have a prediction. `kept_batch` and `kept_mid` are what reservations of these tiers hold, None for nothing; those of
    prod and mid are among the pods too (see `kept_room`).
    """

    capacity: Resources
    reserved: Resources
    pods: tuple[PodInput, ...]
    system: Resources | None
    system_is_current: bool = True
    age_seconds: float = 0.0
    lost: bool = False
    host_apps: tuple[HostApp, ...] = ()
    zones: tuple[Zone, ...] = ()
    allocatable: Resources | None = None
    node_usage: Resources | None = None
    prod_peak: Resources | None = None
    is_whole: bool = True
    kept_batch: Resources | None = None
    kept_mid: Resources | None = None


def amount(resources: Resources, resource: str) -> int:
    """Returns milli-cores of `cpu` or bytes of `memory`."""
    return resources.cpu_milli if resource == "cpu" else resources.memory_bytes


_OTHERS = {tier: tier for tier in ("mid", *LOWER_TIERS)}


def tier_of(tier: str) -> str:
    """Returns the tier that a pod counts with: an unknown tier counts as prod."""
    return _OTHERS.get(tier, "prod")


def percent_of(whole: int, percent: int) -> int:
    """Returns the percentage, cut toward zero; exact, because it uses only integers."""
    share = whole * percent
    return share // 100 if share >= 0 else -(-share // 100)
