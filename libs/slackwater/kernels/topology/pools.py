"""Holders of CPUs and the pools that they share: the input of `plan`, and its answer.

Times are seconds on one clock of the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

SHARED_POOL, RECLAIMED_POOL, RESERVED_POOL = "share", "reclaim", "reserve"
_NO_CPUS: frozenset[int] = frozenset()


class HolderKind(StrEnum):
    """How a container has its CPUs: alone, with those of its pool, what others leave, or any but exclusive ones."""

    DEDICATED = "dedicated"
    SHARED = "shared"
    RECLAIMED = "reclaimed"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class HolderSpec:
    """A container.

    pool           of a shared one by name; of a system one the beginning of the names of its pools, empty: all CPUs
    cpus           what a dedicated one holds since it was admitted; empty: it is to be allocated
    nodes          the NUMA nodes that it is bound to; empty: not bound
    whole_nodes    dedicated: all that is free of its nodes
    evenly         dedicated: the same number of CPUs from each node
    whole_cores    dedicated: no core in part, as far as the count allows
    """

    key: str
    kind: HolderKind
    cpu_milli: int
    pool: str = SHARED_POOL
    admitted_at: float = 0.0
    cpus: frozenset[int] = _NO_CPUS
    nodes: frozenset[int] = _NO_CPUS
    whole_nodes: bool = False
    evenly: bool = False
    whole_cores: bool = False


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """What is known of a pool beside its requests: the predicted peak, and the share of time without a CPU (0..1)."""

    predicted_milli: int | None = None
    pressure: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolInForce:
    """The CPUs of a pool now, and when it had others."""

    cpus: frozenset[int]
    changed_at: float


@dataclass(frozen=True, slots=True)
class PoolRules:
    """How pools change.

    floor                 CPUs that a shared pool has at least, and that dedicated containers leave
    reclaimed_floor       the same of the reclaimed pool; where the shared ones need all, it overlaps with them
    ramp_seconds          so long a new shared container runs on all CPUs that are not dedicated
    grow_most             CPUs by which a pool grows at once
    shrink_most           CPUs by which it shrinks, not sooner than `shrink_after_seconds` after its last change
    pressure_bound        above it, a pool grows by one CPU whatever is predicted
    bound_factor          CPUs per requested one of a pool that is bound to a NUMA node
    partitioned           without it, all pools have every CPU that is not dedicated: weights alone are between them
    named_apart           without `partitioned`, pools by name have their CPUs for themselves all the same
    """

    floor: int = 1
    reclaimed_floor: int = 1
    ramp_seconds: float = 30.0
    grow_most: int = 10
    shrink_most: int = 2
    shrink_after_seconds: float = 30.0
    pressure_bound: float = 0.1
    bound_factor: float = 2.0
    partitioned: bool = True
    named_apart: bool = False


@dataclass(frozen=True, slots=True)
class PoolDemand:
    """What pools are sized by. `offered_milli`: what is lent to reclaimed containers; None: nothing is lent.

    `reserved` are the CPUs of the system pool, `forbidden` those of nothing (interrupts).
    """

    reserved: frozenset[int] = _NO_CPUS
    forbidden: frozenset[int] = _NO_CPUS
    offered_milli: int | None = None
    loads: Mapping[str, PoolLoad] = field(default_factory=lambda: MappingProxyType({}))
    in_force: Mapping[str, PoolInForce] = field(default_factory=lambda: MappingProxyType({}))
    rules: PoolRules = PoolRules()


class ResizeRule(StrEnum):
    """Why a pool has its size."""

    NEW = "new"
    UNCHANGED = "unchanged"
    GROWN = "grown"
    SHRUNK = "shrunk"
    COOLING_DOWN = "cooling_down"
    UNDER_PRESSURE = "under_pressure"


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """The size of one pool: by its own need (`needed`), after ramp and hysteresis (`stepped`), and with all pools in
    the CPUs that there are (`size`). `overlaps`: others have the same CPUs, because there are too few.
    """

    pool: str
    before: int
    needed: int
    stepped: int
    size: int
    rule: ResizeRule
    requests_milli: int
    predicted_milli: int | None = None
    offered_milli: int | None = None
    pressure: float = 0.0
    overlaps: bool = False

    @property
    def resized(self) -> bool:
        return self.size != self.before

    def sentence(self) -> str:
        """Returns the decision in one line."""
        grounds = [f"requests {self.requests_milli}m"]
        grounds += [] if self.predicted_milli is None else [f"predicted peak {self.predicted_milli}m"]
        grounds += [] if self.offered_milli is None else [f"offered {self.offered_milli}m"]
        grounds += [f"pressure {self.pressure:.2f}"] if self.pressure else []
        shared = "; others have the same CPUs" if self.overlaps else ""
        return (
            f"{self.pool}: {self.before} -> {self.size} CPUs ({self.rule}: needs {self.needed} by "
            f"{', '.join(grounds)}; steps to {self.stepped}{shared})"
        )


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """CPUs by holder and by pool, why each pool is as large, and why a holder gets none. Equal input, equal plan: the
    input is the record from which it is replayed.
    """

    assignments: Mapping[str, frozenset[int]]
    pools: Mapping[str, frozenset[int]]
    decisions: Sequence[PoolDecision] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    def in_force(self, before: Mapping[str, PoolInForce], now: float) -> Mapping[str, PoolInForce]:
        """Returns the pools as the next plan wants them: what did not change keeps the time of its last change."""
        return {
            name: before[name] if name in before and before[name].cpus == cpus else PoolInForce(cpus, now)
            for name, cpus in self.pools.items()
        }
