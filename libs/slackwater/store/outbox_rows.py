"""Converts events to outbox rows, and back as far as the bus needs them."""

from __future__ import annotations

from typing import Any

import msgspec

from slackwater.events.envelope import Event
from slackwater.events.serialized import Written, payload_of


def headers_of(event: Event[Any]) -> str:
    """Returns the envelope without the payload, as JSON."""
    return msgspec.json.encode(
        {
            "source": event.source,
            "time": event.time.isoformat(),
            "causedby": event.causedby,
            "traceparent": event.traceparent,
        }
    ).decode()


def written_from(identifier: str, type_name: str, subject: str, headers: str, payload: str) -> Written:
    """Returns the event of an outbox row, its payload unparsed. Raises InvalidInput for a type
    unknown to this version.
    """
    return Written(
        id=identifier,
        type=type_name,
        stream=payload_of(type_name).STREAM,
        subject=subject,
        body=payload,
        **msgspec.json.decode(headers),
    )
