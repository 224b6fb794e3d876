"""node.scheduling_changed: whether a node takes new pods. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Items, Moment, Name


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

    node: Name
    closed: bool
    reason: Name
    decision_id: Name
    rules: Items[Name]
    since: Moment
    told_at: Moment
    valid_until: Moment | None

    def key(self) -> str:
        return self.node
