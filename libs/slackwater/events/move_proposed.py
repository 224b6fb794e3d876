"""move.proposed: a pod would be better on another node, by a margin, as a profile of descheduling finds."""

from __future__ import annotations

from typing import Annotated, ClassVar

from annotated_types import Interval

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Moment, Name, PodPriority, Seconds, Text
from slackwater.podmigration.jobs import MigrationMode


class MoveProposed(Payload):
    """A proposal of one cycle of a DeschedulerProfile: nothing has been done for it yet, and its workload rests from
    now on. The service migration makes a migration job of it.

    `id` is the same if the same cycle is published again. `target` is the node whose headroom the plan reserved; empty
    where the plugin looks for none. `gain` is by how much the weighted load of the target stays below that of the node
    after the move, in 0..1; 0 where the pod leaves for another reason than load. A job that is not admitted is dropped
    `ttl_seconds` after `proposed_at`.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "move.proposed"
    STREAM: ClassVar[str] = "DECISIONS"
    LISTED: ClassVar[bool] = True

    id: Name
    profile: Name
    cycle: Count
    plugin: Name
    pod_uid: Name
    pod_name: Name
    namespace: Name
    workload: Name
    node: Name
    target: Name = ""
    gain: Annotated[float, Interval(ge=-1, le=1)] = 0.0
    reason: Text
    priority: PodPriority = 0
    mode: MigrationMode = MigrationMode.RESERVATION_FIRST
    ttl_seconds: Seconds
    decision_id: Name
    proposed_at: Moment

    def key(self) -> str:
        return f"{self.node}/{self.id}"

    def shard_key(self) -> str:
        return self.node
