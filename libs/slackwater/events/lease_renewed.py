"""lease.renewed: the owner of a partition is alive and reads its reports. Published every third of a lease."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import BroadcastPayload
from slackwater.model.bounds import Count, Items, Moment, Name, Seconds


class LeaseRenewed(BroadcastPayload):
    """Renews the lease of `writer`'s intents for the nodes of a partition whose reports the writer reads.

    The agent decides whether its node is covered: a report that it published within the last `heard_within_seconds`
    must be in the stream at or before `read_up_to`. `epoch` is that of the writer's lease on the partition, so that a
    replica that has lost the lease does not renew documents of its successor.
    """

    TYPE: ClassVar[str] = "lease.renewed"

    writer: Name
    epoch: Count
    read_up_to: Count
    """The stream sequence up to which the writer has read reports; 0 = none yet."""
    heard_within_seconds: Seconds = Field(gt=0)
    blocked: Items[Name] = ()
    """Nodes of the partition whose agents an operator has blocked. Their reports are not read and their leases not
    renewed, whatever `read_up_to` is."""
    sent_at: Moment
    """Time by the sender's clock, for information only."""

    def key(self) -> str:
        return self.writer
