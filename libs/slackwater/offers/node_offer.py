"""All offers of one node at one time: mid, then batch, each aged and gated, and zones within the batch offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.offers.kept_room import kept_amount
from slackwater.offers.mid import node_offers
from slackwater.offers.offer import Decided, settled
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import Strategy
from slackwater.offers.zones import NumaZoneOffer, after_gate, borne, zone_offers


@record(frozen=True, slots=True)
class Both:
    """The decisions on one tier's offer."""

    cpu: Decided
    memory: Decided

    @property
    def value(self) -> Resources:
        return Resources(self.cpu.value, self.memory.value)

    @property
    def taken(self) -> Resources:
        """What reservations take off it."""
        return Resources(self.cpu.taken, self.memory.taken)


@record(frozen=True, slots=True)
class Gates:
    """One gate for each tier and resource."""

    mid_cpu: PublishGate = field(default_factory=PublishGate)
    mid_memory: PublishGate = field(default_factory=PublishGate)
    batch_cpu: PublishGate = field(default_factory=PublishGate)
    batch_memory: PublishGate = field(default_factory=PublishGate)


@record(frozen=True, slots=True)
class NodeOffer:
    """What a node offers from now on."""

    mid: Both
    batch: Both
    zones: tuple[NumaZoneOffer, ...]
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
        settled(cpu.mid, snapshot, strategy, gates.mid_cpu, window, kept_amount("mid", "cpu", snapshot)),
        settled(memory.mid, snapshot, strategy, gates.mid_memory, window, kept_amount("mid", "memory", snapshot)),
    )
    batch = Both(
        settled(cpu.batch, snapshot, strategy, gates.batch_cpu, window, kept_amount("batch", "cpu", snapshot)),
        settled(memory.batch, snapshot, strategy, gates.batch_memory, window, kept_amount("batch", "memory", snapshot)),
    )
    shares = Resources(cpu.mid_share, memory.mid_share)
    if not snapshot.zones:
        return NodeOffer(mid, batch, (), shares)
    computed = zone_offers(snapshot, strategy, batch.value, shares)
    kept = after_gate(zones or {}, computed, strategy.diff_threshold)
    return NodeOffer(mid, batch, borne(kept, computed, batch.value), shares)
