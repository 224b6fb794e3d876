"""node.deleted: a node is gone, by an operator or by its silence. Last value per node."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Moment, Name


class DeletionReason(StrEnum):
    """Why a node was deleted."""

    OPERATOR = "operator"
    """`slackwater delete node`."""
    EXPIRED = "expired"
    """It was lost for SLACKWATER_INGESTION_GONE_SECONDS, or was described and never reported for as long."""


class NodeDeleted(Payload):
    """Services drop their state of the node, unless something newer than `deleted_at` is known of it.

    A node that reports again comes back: its last description is published anew. Its records are kept.
    """

    TYPE: ClassVar[str] = "node.deleted"
    STREAM: ClassVar[str] = "STATE"
    LISTED: ClassVar[bool] = True

    node: Name
    reason: DeletionReason
    deleted_by: Name
    deleted_at: Moment
    last_report_at: Moment | None = None

    def key(self) -> str:
        return self.node
