"""Decoding at the boundary of every reader: any failure becomes a refusal of the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from slackwater.bus.codec.cloudevents import Message, attributes_of, decode_on
from slackwater.bus.codec.failures import DECODER_FAILED, detail_of, is_of_machine
from slackwater.events.codec import fast_decode
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.envelope import Event, Payload
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)
T = TypeVar("T")


def decode_message(
    subject: str,
    payload: type[P],
    headers: Mapping[str, str] | None,
    body: bytes,
    *,
    read: fast_decode.Read = fast_decode.read,
) -> Event[P]:
    """As slackwater.bus.codec.cloudevents.decode_on. Raises Undecodable, with code `decoder_failed` for any
    other exception of a decoder; Unavailable when the machine is out of memory.
    """
    return _refusing(lambda: decode_on(subject, payload, headers, body, read=read))


def decode_payload(payload: type[P], body: bytes) -> P:
    """As slackwater.events.codec.body.decode_body. Raises as `decode_message`."""
    return _refusing(lambda: decode_body(payload, body))


def decode_attributes(payload: type[Payload], headers: Mapping[str, str] | None) -> dict[str, Any]:
    """As slackwater.bus.codec.cloudevents.attributes_of. Raises as `decode_message`."""
    return _refusing(lambda: attributes_of(payload, headers))


def _refusing(decode: Callable[[], T]) -> T:
    try:
        return decode()
    except Undecodable:
        raise
    except Exception as error:
        if is_of_machine(error):
            raise Unavailable(f"decoder failed: {detail_of(error)}") from error
        raise Undecodable(detail_of(error), code=DECODER_FAILED) from error


def decoded_or_none(payload: type[P], message: Message) -> Event[P] | None:
    """Returns None for a message that cannot be decoded; its consumers have dead-lettered it."""
    try:
        return decode_message(message.subject, payload, message.headers, message.body)
    except Undecodable as error:
        log.warning("the last message is skipped", type=payload.TYPE, subject=message.subject, error=error.message)
        return None
