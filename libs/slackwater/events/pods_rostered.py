"""pods.rostered: which pods a node runs, with identity and requests. The reports of the node count by it."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload, subject_token
from slackwater.events.rosters import SLOTS, Roster, Slot
from slackwater.model.bounds import Count, Moment, Name
from slackwater.model.identifiers import shard_of


class PodsRostered(Payload):
    """The roster of a node from the report with `sequence` on. It is published before that report, and whenever a pod
    comes, goes, or is described otherwise; usage never changes it. A node has one subject per `slot`: its last rosters
    stay readable for reports that wait to be read."""

    TYPE: ClassVar[str] = "pods.rostered"
    STREAM: ClassVar[str] = "ROSTERS"
    FROM_AGENT: ClassVar[bool] = True
    KEY_PARTS: ClassVar[int] = 2
    AGENT_KEYS: ClassVar[tuple[str, ...]] = tuple(map(str, range(SLOTS)))

    node: Name
    boot_epoch: Name
    sequence: Count
    rostered_at: Moment
    slot: Slot
    roster: Roster

    def key(self) -> str:
        return f"{self.node}/{self.slot}"

    def shard_key(self) -> str:
        return self.node


def subject_in(node: str, slot: int) -> str:
    """Returns the subject of a node's roster in a slot."""
    return f"sw.v1.{PodsRostered.TYPE}.{shard_of(node)}.{subject_token(node)}.{slot}"
