"""resource.changed: a document of any resource kind was stored or deleted. Last value per document."""

from __future__ import annotations

from typing import ClassVar

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, JsonDocument, Moment, Name


class ResourceChanged(Payload):
    """A new generation of one document, published in the transaction that stores it.

    A change without effect and a dry run publish nothing. `author` made the generation (empty: unknown). `document` is
    as it was stored; None if it was deleted (`deleted`), or if it is too large for an event.
    """

    TYPE: ClassVar[str] = "resource.changed"
    STREAM: ClassVar[str] = "STATE"
    KEY_PARTS: ClassVar[int] = 2

    service: Name
    kind: Name
    name: Name
    generation: Count
    author: Name = ""
    changed_at: Moment
    deleted: bool = False
    document: JsonDocument | None = None

    def key(self) -> str:
        return f"{self.kind}/{self.name.replace('/', '_')}"

    def shard_key(self) -> str:
        return self.kind
