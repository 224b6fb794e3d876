"""node.described: the static properties of a node, at agent start and on every change. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name
from slackwater.model.nodes import NodeFacts


class NodeDescribed(Payload):
    """The current properties of the node."""

    TYPE: ClassVar[str] = "node.described"
    STREAM: ClassVar[str] = "STATE"
    FROM_AGENT: ClassVar[bool] = True
    ALSO_FROM: ClassVar[frozenset[str]] = frozenset({"ingestion"})  # of a node that is back after its deletion

    facts: NodeFacts
    boot_epoch: Name
    described_at: Moment

    def key(self) -> str:
        return self.facts.name
