"""Events as rows of the outbox, and back through the registry of events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from slackwater.events.envelope import Event, Payload
from slackwater.events.registry import EVENTS
from slackwater.model.errors import InvalidInput

_PAYLOADS: Mapping[str, type[Payload]] = {f"{payload.TYPE}.v{payload.VERSION}": payload for payload in EVENTS}


def type_of(event: Event[Any]) -> str:
    """`usage.windowed.v1`."""
    return f"{event.data.TYPE}.v{event.data.VERSION}"


def headers_of(event: Event[Any]) -> str:
    """The envelope without the payload, as JSON."""
    return json.dumps(
        {
            "source": event.source,
            "time": event.time.isoformat(),
            "causedby": event.causedby,
            "traceparent": event.traceparent,
        }
    )


def event_from(identifier: str, type_name: str, headers: str, payload: str) -> Event[Any]:
    """Raises InvalidInput for a type that this version does not know or a body that does not fit it."""
    model = _PAYLOADS.get(type_name)
    if model is None:
        raise InvalidInput(f"type: {type_name!r} is not in the registry of events", field="type")
    try:
        data = model.model_validate_json(payload)
    except ValidationError as error:
        raise InvalidInput(f"payload of {type_name}: {error}", field="payload") from error
    envelope = json.loads(headers)
    return Event[Any].model_construct(
        id=identifier,
        source=envelope["source"],
        time=datetime.fromisoformat(envelope["time"]),
        causedby=envelope["causedby"],
        traceparent=envelope["traceparent"],
        data=data,
    )
