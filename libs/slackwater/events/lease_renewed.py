"""lease.renewed: the owner of a partition is there and reads its reports. Told every third of a lease."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Told
from slackwater.model.bounds import Count, Items, Moment, Name, Seconds


class LeaseRenewed(Told):
    """The intents of `writer` for the nodes of a partition hold for another lease, where it hears the node.

    Whether it does, the agent knows: it is heard if a report that it published within the last `heard_within_seconds`
    stands in the stream at or before `read_up_to`. `epoch` is that of the writer's lease on the partition: what one
    says who has lost it renews no document of his successor.
    """

    TYPE: ClassVar[str] = "lease.renewed"

    writer: Name
    epoch: Count
    read_up_to: Count
    """The position in the stream of reports up to which they have been read; 0 = none yet."""
    heard_within_seconds: Seconds = Field(gt=0)
    blocked: Items[Name] = ()
    """Nodes of the partition whose reports are left unread, because an operator has blocked their agents: nothing is
    renewed for these, whatever stands before `read_up_to`."""
    sent_at: Moment
    """By the sender's clock; nobody reckons with it."""

    def key(self) -> str:
        return self.writer
