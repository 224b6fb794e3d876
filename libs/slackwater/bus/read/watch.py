"""Delivers one watched message: decodes it and calls the handler; a failure affects this message
only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.codec.decoder import decode_message
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Event, Payload, subjects_of
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)


def subjects_below(payload: type[Payload], key: str | None) -> str:
    """Returns the subject filter of a type, restricted to keys that equal `key` or begin with it,
    token by token.
    """
    if key is None:
        return subjects_of(payload)
    missing = payload.KEY_PARTS - len(key.split("/"))
    return subjects_of(payload, key).removesuffix(".>") + ".*" * missing


async def deliver_watched(payload: type[P], handler: Callable[[Event[P]], Awaitable[None]], message: Message) -> None:
    """Call the handler with the decoded message. Raises nothing but cancellation."""
    try:
        event = decode_message(message.subject, payload, message.headers, message.body)
    except (Undecodable, Unavailable) as error:
        log.warning("watched message skipped", type=payload.TYPE, subject=message.subject, error=error.message)
        return
    try:
        await handler(event)
    except Exception:
        log.exception("watch handler failed", type=payload.TYPE, subject=message.subject)
