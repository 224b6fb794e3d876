"""state.quarantined: an item of a service's state was quarantined or released."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Moment, Name, Text


class QuarantineReason(StrEnum):
    """Why a row or node is quarantined: it cannot be decoded, PostgreSQL rejects its value, or its computation
    fails."""

    UNREADABLE = "unreadable"
    UNSTORABLE = "unstorable"
    UNCOMPUTABLE = "uncomputable"


class StateQuarantined(Payload):
    """One item of a service's quarantine, published when it is quarantined and when it is released (`released`).

    `id` names the item in REST and the CLI. `table` and `row` locate it in the service's schema, `node` is the node it
    belongs to (empty: none). `count` is the number of failures so far.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "state.quarantined"
    STREAM: ClassVar[str] = "DECISIONS"
    LISTED: ClassVar[bool] = True

    service: Name
    id: Name
    table: Name
    row: Text
    node: Text = ""
    reason: QuarantineReason
    detail: Text
    since: Moment
    count: Count
    released: bool = False
    told_at: Moment

    def key(self) -> str:
        return f"{self.shard_key()}/{self.service}-{self.id}"

    def shard_key(self) -> str:
        return (self.node or self.row).replace("/", "_") or "-"
