"""The event of a stored generation. Pure, but for the event's id."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from slackwater.events.envelope import Event, event_of
from slackwater.events.resource_changed import ResourceChanged
from slackwater.model.bounds import FreeForm
from slackwater.resources.kind import Kind
from slackwater.resources.store import StoredResource

MOST_BYTES = 262_144
"""A quarter of what a message of the broker may hold."""


def changed_event(kind: Kind, row: StoredResource, changed_at: datetime) -> Event[ResourceChanged]:
    """The event of a row that was stored at this time."""
    data = ResourceChanged(
        service=kind.service,
        kind=kind.name,
        name=row.name,
        generation=row.generation,
        author=_one_line(row.author),
        changed_at=changed_at,
        deleted=row.document is None,
        document=None,
    )
    whole = data.model_copy(update={"document": _bounded(row.document)})  # checked there, once
    return event_of(whole, source=kind.service, time=changed_at)


def _bounded(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if document is None or len(json.dumps(document)) > MOST_BYTES or FreeForm().problem(document) is not None:
        return None
    return dict(document)


def _one_line(author: str) -> str:
    """An author as a Name; a row may hold any text."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in author).split())[:512]
