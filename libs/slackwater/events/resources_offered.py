"""resources.offered: what lower tiers may use of a node. Last value per node."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.quantities import Resources


class ResourcesOffered(Payload):
    """The batch offer of one node. `decision_ids` maps `batch-cpu` and `batch-memory` to their decision records.

    `generation` rises with every published change. `degraded` says that inputs were missing or old and why.
    """

    TYPE: ClassVar[str] = "resources.offered"
    STREAM: ClassVar[str] = "STATE"

    node: str
    offered_at: datetime
    generation: int
    batch: Resources
    degraded: str | None
    decision_ids: dict[str, str]

    def key(self) -> str:
        return self.node
