"""The node's facts: published at the start and whenever they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slackwater.agent.ports import Publisher
from slackwater.events.node_described import NodeDescribed
from slackwater.model.nodes import NodeFacts
from slackwater.model.time import Clock


@dataclass(slots=True)
class PublishDescription:
    """`read` returns the machine's facts with the operator's settings applied."""

    read: Callable[[], NodeFacts]
    boot_epoch: str
    clock: Clock
    publisher: Publisher
    facts: NodeFacts

    @property
    def name(self) -> str:
        return self.facts.name

    def publish(self) -> None:
        described_at = self.clock.now()
        self.publisher.described(NodeDescribed(facts=self.facts, boot_epoch=self.boot_epoch, described_at=described_at))

    def update(self) -> bool:
        """Read the facts again; whether they have changed. A host may be renamed, a node keeps its name."""
        facts = replace(self.read(), name=self.facts.name)
        if facts == self.facts:
            return False
        self.facts = facts
        self.publish()
        return True
