"""Everything the offers of a node are made of: one consistent picture, with the time that it speaks of."""

from __future__ import annotations

from slackwater.model.quantities import Resources
from slackwater.model.records import record

RESOURCES = ("cpu", "memory")
HIGH_TIERS = ("prod", "mid")
LOWER_TIERS = frozenset({"batch", "free"})
"""Tiers that hold nothing against an offer. Any other word, and none, is held like prod."""


@record(frozen=True, slots=True)
class PodUse:
    """A pod's claim: current p95 (None: not measured), predicted peak (None: none), and whether that is cold.

    `numa` are the NUMA nodes it was given (none: it may be on any). `listed` False: measured, but nobody lists it as a
    pod of the node; it has no request then. `bound_seconds_ago` is how long ago a pod was bound to the
    node, None if that is not known.
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
    """An application beside the pods, and its current p95; the system's usage does not contain it."""

    name: str
    tier: str
    usage: Resources


@record(frozen=True, slots=True)
class Zone:
    """A NUMA node: what of it pods can have."""

    name: str
    allocatable: Resources


@record(frozen=True, slots=True)
class NodeSnapshot:
    """Everything an offer is made of. `system` None: never measured; `system_is_current` False: an older value.

    `age_seconds` is the age of the usage, `lost` that the node was given up. `is_whole` False: usage was told since
    then, but not all of it, so that it does not count as younger. `capacity` and `allocatable` are raw,
    before any amplification; `allocatable` None: all of the capacity but what is reserved. `node_usage` is everything
    that runs, None if it was not measured. `prod_peak` is what was predicted for all the predicted pods of prod
    together, None where only each pod has a prediction.
    """

    capacity: Resources
    reserved: Resources
    pods: tuple[PodUse, ...]
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


def amount(resources: Resources, resource: str) -> int:
    """Milli-cores of `cpu` or bytes of `memory`."""
    return resources.cpu_milli if resource == "cpu" else resources.memory_bytes


_OTHERS = {tier: tier for tier in ("mid", *LOWER_TIERS)}


def tier_of(tier: str) -> str:
    """The tier whose pods a pod is counted with: one that is unknown is taken for prod."""
    return _OTHERS.get(tier, "prod")


def percent_of(whole: int, percent: int) -> int:
    """Cut toward zero; exact, for it never leaves integers."""
    share = whole * percent
    return share // 100 if share >= 0 else -(-share // 100)
