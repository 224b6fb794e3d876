"""Decoding at the boundary of every reader: any failure becomes a refusal of the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from slackwater.bus.codec.cloudevents import attributes_of, decode_on
from slackwater.bus.codec.failures import DECODER_FAILED, detail_of, is_of_machine
from slackwater.bus.codec.lost_values import lost_values
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.codec.unknown_values import Lost
from slackwater.events.envelope import Event, Payload
from slackwater.events.rosters import FindRoster, RosterMissing, no_roster
from slackwater.model.errors import Unavailable

P = TypeVar("P", bound=Payload)

T = TypeVar("T")


def decode_message(
    subject: str,
    payload: type[P],
    headers: Mapping[str, str] | None,
    body: bytes,
    *,
    find: FindRoster = no_roster,
) -> Event[P]:
    """As slackwater.bus.codec.cloudevents.decode_on; what unknown values have lost is counted and logged. Raises
    RosterMissing; Undecodable, with code `decoder_failed` for any other exception of a decoder; Unavailable when the
    machine is out of memory.
    """
    lost = Lost()
    event = _refusing(lambda: decode_on(subject, payload, headers, body, lost=lost, find=find))
    if lost:
        lost_values().note(payload.TYPE, lost, subject)
    return event


def decode_payload(payload: type[P], body: bytes, find: FindRoster = no_roster) -> P:
    """As slackwater.events.codec.body.decode_body. Raises as `decode_message`."""
    lost = Lost()
    data = _refusing(lambda: decode_body(payload, body, lost=lost, find=find))
    if lost:
        lost_values().note(payload.TYPE, lost)
    return data


def decode_attributes(payload: type[Payload], headers: Mapping[str, str] | None) -> dict[str, Any]:
    """As slackwater.bus.codec.cloudevents.attributes_of. Raises as `decode_message`."""
    return _refusing(lambda: attributes_of(payload, headers))


def _refusing(decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (Undecodable, RosterMissing):
        raise
    except Exception as error:
        if is_of_machine(error):
            raise Unavailable(f"decoder failed: {detail_of(error)}") from error
        raise Undecodable(detail_of(error), code=DECODER_FAILED) from error
