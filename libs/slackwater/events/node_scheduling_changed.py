"""node.scheduling_changed: whether a node takes new pods. Last value per node."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from slackwater.events.envelope import Payload


class NodeSchedulingChanged(Payload):
    """A node was closed for new pods, or opened again; or it is closed still, which is told again before `valid_until`.

    A closing counts until `valid_until` and no longer: whoever reads a later time on his clock takes the node for open,
    so nothing stays closed because somebody has died. An opening (`valid_until` None) counts until the next closing. A
    node that nothing was ever told of is open. `reason` is a word of the closed set of decision reasons, `decision_id`
    the record that explains it, `rules` are those that closed the node (`policy.rule`), `since` when it was closed or
    opened. Pods that run are not concerned.
    """

    TYPE: ClassVar[str] = "node.scheduling_changed"
    STREAM: ClassVar[str] = "STATE"

    node: str
    closed: bool
    reason: str
    decision_id: str
    rules: tuple[str, ...]
    since: datetime
    told_at: datetime
    valid_until: datetime | None

    def key(self) -> str:
        return self.node
