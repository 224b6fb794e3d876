"""pods.rostered: which pods a node runs, with identity and requests. The reports of the node count by it."""

from __future__ import annotations

import operator
from typing import Annotated, ClassVar, Final

from pydantic import Field

from slackwater.events.envelope import Payload, subject_token
from slackwater.events.rosters import SLOTS, Roster, Slot
from slackwater.model.bounds import Count, Items, Moment, Name
from slackwater.model.identifiers import shard_of
from slackwater.model.records import record

_Uids = Annotated[Items[Name], Field(exclude_if=operator.not_)]


@record(frozen=True, slots=True)
class RosterChanges:
    """The uids of the pods that came, that left, and that are described otherwise since the roster before. A pod that
    has failed has left."""

    added: _Uids = ()
    removed: _Uids = ()
    changed: _Uids = ()


UNCHANGED: Final = RosterChanges()


def is_unchanged(changes: RosterChanges) -> bool:
    """Returns whether there are no changes to publish."""
    return changes == UNCHANGED


class PodsRostered(Payload):
    """The roster of a node from the report with `sequence` on. It is published before that report, at once when a pod
    comes, goes, or is described otherwise, and repeated while nothing changes; usage never changes it. `changes` are
    omitted where there are none or the roster before is not known. A node has one subject per `slot`: its last rosters
    stay readable for reports that wait to be read. Of a node's rosters the one with the highest sequence is the newest
    in a boot."""

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
    changes: RosterChanges = Field(default=UNCHANGED, exclude_if=is_unchanged)

    def key(self) -> str:
        return f"{self.node}/{self.slot}"

    def shard_key(self) -> str:
        return self.node


def changes_between(before: Roster, after: Roster) -> RosterChanges:
    """Returns what a roster has that the one before has not, and the other way round."""
    ran, runs = {pod.uid: pod for pod in before.pods}, {pod.uid: pod for pod in after.pods}
    return RosterChanges(
        added=tuple(uid for uid in runs if uid not in ran),
        removed=tuple(uid for uid in ran if uid not in runs),
        changed=tuple(uid for uid, pod in runs.items() if uid in ran and ran[uid] != pod),
    )


def subject_in(node: str, slot: int) -> str:
    """Returns the subject of a node's roster in a slot."""
    return f"sw.v1.{PodsRostered.TYPE}.{shard_of(node)}.{subject_token(node)}.{slot}"
