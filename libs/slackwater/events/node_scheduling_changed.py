"""node.scheduling_changed: whether a node is cordoned for new pods. Last value per node."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Items, Moment, Name


class NodeSchedulingChanged(Payload):
    """A node was cordoned (`closed`) or uncordoned; a cordon that continues is renewed before `valid_until`.

    A cordon expires at `valid_until`: a consumer whose clock is later treats the node as open, so that no node stays
    cordoned because a publisher has died. An open state (`valid_until` None) holds until the next cordon. A node
    without an event is open. `reason` is a decision reason, `decision_id` the record that explains it, `rules` the
    rules that cordoned the node (`policy.rule`), `since` the time of the last change. Running pods are not affected.
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
