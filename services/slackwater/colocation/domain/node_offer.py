"""All offers of one node at one time: mid, then batch, each aged and gated, and zones within the batch offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from slackwater.colocation.domain.gating import Gate
from slackwater.colocation.domain.mid import node_offers
from slackwater.colocation.domain.offer import Decided, settled
from slackwater.colocation.domain.snapshot import NodeSnapshot
from slackwater.colocation.domain.strategy import Strategy
from slackwater.colocation.domain.zones import ZoneOffer, after_gate, borne, zone_offers
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class Both:
    """The decisions on one tier's offer."""

    cpu: Decided
    memory: Decided

    @property
    def value(self) -> Resources:
        return Resources(self.cpu.value, self.memory.value)


@record(frozen=True, slots=True)
class Gates:
    """One gate for each tier and resource."""

    mid_cpu: Gate = field(default_factory=Gate)
    mid_memory: Gate = field(default_factory=Gate)
    batch_cpu: Gate = field(default_factory=Gate)
    batch_memory: Gate = field(default_factory=Gate)


@record(frozen=True, slots=True)
class NodeOffer:
    """What a node offers from now on."""

    mid: Both
    batch: Both
    zones: tuple[ZoneOffer, ...]
    mid_share: Resources = field(default_factory=Resources)
    """The maximum that mid may get, which batch leaves to mid: see `mid.Offers`."""

    def gates(self) -> Gates:
        return Gates(self.mid.cpu.gate, self.mid.memory.gate, self.batch.cpu.gate, self.batch.memory.gate)


def decide_node(
    snapshot: NodeSnapshot,
    strategy: Strategy,
    gates: Gates,
    window: int,
    zones: Mapping[str, Resources] | None = None,
) -> NodeOffer:
    """Returns the offers of a node.

    `window` is the end of the usage's window, seconds since 1970; `gates` are those after the last decision, and
    `zones` what each zone has offered since then. Zones follow the published value of the node: if the node offers
    nothing, its zones offer nothing from the same time on. Within that a zone keeps its value while the difference is
    small.
    """
    cpu, memory = (node_offers(resource, snapshot, strategy) for resource in ("cpu", "memory"))
    mid = Both(
        settled(cpu.mid, snapshot, strategy, gates.mid_cpu, window),
        settled(memory.mid, snapshot, strategy, gates.mid_memory, window),
    )
    batch = Both(
        settled(cpu.batch, snapshot, strategy, gates.batch_cpu, window),
        settled(memory.batch, snapshot, strategy, gates.batch_memory, window),
    )
    shares = Resources(cpu.mid_share, memory.mid_share)
    if not snapshot.zones:
        return NodeOffer(mid, batch, (), shares)
    computed = zone_offers(snapshot, strategy, batch.value, shares)
    kept = after_gate(zones or {}, computed, strategy.diff_threshold)
    return NodeOffer(mid, batch, borne(kept, computed, batch.value), shares)
