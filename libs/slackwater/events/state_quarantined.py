"""state.quarantined: a part of a service's state cannot be read, stored or computed, or was released again."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Moment, Name, Text


class QuarantineReason(StrEnum):
    """Why a row or node was set aside: it cannot be read, PostgreSQL refuses its value, or its computation fails."""

    UNREADABLE = "unreadable"
    UNSTORABLE = "unstorable"
    UNCOMPUTABLE = "uncomputable"


class StateQuarantined(Payload):
    """One item of a service's quarantine, told when it goes in and when it is released (`released`).

    `id` names the item in REST and the CLI. `table` and `row` say where in the service's schema it is, `node` which
    node it belongs to (empty: none). `count` says how often it has failed by then.
    """

    KEY_PARTS: ClassVar[int] = 2
    TYPE: ClassVar[str] = "state.quarantined"
    STREAM: ClassVar[str] = "DECISIONS"

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
