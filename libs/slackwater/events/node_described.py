"""node.described: the facts of a node, on agent start and on every change. Last value per node."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.nodes import NodeFacts


class NodeDescribed(Payload):
    """What the node is now."""

    TYPE: ClassVar[str] = "node.described"
    STREAM: ClassVar[str] = "STATE"

    facts: NodeFacts
    boot_epoch: str
    described_at: datetime

    def key(self) -> str:
        return self.facts.name
