"""node.reserved: what reservations keep on a node for pods to come. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Items, Moment, Name
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier


@record(frozen=True, slots=True)
class ReservedRoom:
    """What no owner has taken yet of one reservation, in the resources of its tier. `expires_at` None: it holds until
    it is left out."""

    name: Name
    tier: Tier
    qos: QoSClass
    amount: Resources
    expires_at: Moment | None = None


class NodeReserved(Payload):
    """All room that is kept on a node; none once its reservations are bound or have ended.

    A consumer counts a reservation until `expires_at` by its own clock, whether or not the publisher still answers.
    `generation` rises with every change of the publisher's ledger: of two events the one with the higher is the newer,
    also where the publisher's clock was set back.
    """

    TYPE: ClassVar[str] = "node.reserved"
    STREAM: ClassVar[str] = "STATE"

    node: Name
    generation: Count
    rooms: Items[ReservedRoom]
    reserved_at: Moment

    def key(self) -> str:
        return self.node
