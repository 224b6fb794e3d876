"""resources.offered: the resources of a node that lower tiers may use. Last value per node."""

from __future__ import annotations

import operator
from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Labels, Moment, Name, Text
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class ZoneOffered:
    """The batch offer of one NUMA node; the sum over the zones never exceeds the node's offer."""

    name: Name
    batch: Resources


@record(frozen=True, slots=True)
class StatusOffered:
    """The batch resources in the node's status: the offer in normalized CPUs (times `cpu_ratio`), minus what other
    schedulers have already allocated. `before` is the value before that subtraction."""

    batch: Resources
    before: Resources
    cpu_ratio: Name


@record(frozen=True, slots=True)
class OfferReserved:
    """What reservations for pods to come take off the offers of their tiers."""

    batch: Resources
    mid: Resources


class ResourcesOffered(Payload):
    """The offers of one node: mid first, then batch from the remainder, so that no slack is offered twice.

    `decision_ids` maps `batch-cpu`, `batch-memory`, `mid-cpu` and `mid-memory` to their decision records; mid has none
    if the strategy offers it nothing. `generation` rises with every published change. `degraded` says which inputs were
    missing or stale. `reason` is the decision reason of this publication. `strategies` names the sources of the merged
    strategy in ascending precedence: `cluster@GENERATION`, `pool/NAME@GENERATION`, `node-annotation`, `node-label`.
    `status` is None if the node's status shows the offer itself. `reserved` is what `batch` and `mid` are without,
    because reservations keep it (node.reserved); None: nothing. Bodies from before these fields have their defaults.
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
    reserved: OfferReserved | None = Field(default=None, exclude_if=operator.not_)

    def key(self) -> str:
        return self.node
