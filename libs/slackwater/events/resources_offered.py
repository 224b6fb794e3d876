"""resources.offered: what lower tiers may use of a node. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Labels, Moment, Name, Text
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class ZoneOffered:
    """What batch may use of one NUMA node; all zones together never exceed the node's offer."""

    name: Name
    batch: Resources


@record(frozen=True, slots=True)
class StatusOffered:
    """What a node's status says of batch: the offer in CPUs of the normal kind (times `cpu_ratio`), less what other
    schedulers hold of it already. `before` is without the latter."""

    batch: Resources
    before: Resources
    cpu_ratio: Name


class ResourcesOffered(Payload):
    """The offers of one node: mid first, batch from what mid left (one slack, sold once).

    `decision_ids` maps `batch-cpu`, `batch-memory`, `mid-cpu` and `mid-memory` to their decision records; mid has none
    where the strategy offers it nothing. `generation` rises with every published change. `degraded` says that inputs
    were missing or old and why. `reason` is why it was published just then, a word of the closed set of decision
    reasons. `strategies` names what the strategy in force was merged from, the weakest first: `cluster@GENERATION`,
    `pool/NAME@GENERATION`, `node-annotation`, `node-label`. `status` is None where the node's status says the offer
    itself. A body from before these fields has their defaults.
    """

    TYPE: ClassVar[str] = "resources.offered"
    STREAM: ClassVar[str] = "STATE"

    node: Name
    offered_at: Moment
    generation: Count
    batch: Resources
    degraded: Text | None
    decision_ids: Labels
    mid: Resources = Resources()
    zones: Items[ZoneOffered] = ()
    reason: Name = ""
    strategies: Items[Name] = ()
    status: StatusOffered | None = None

    def key(self) -> str:
        return self.node
