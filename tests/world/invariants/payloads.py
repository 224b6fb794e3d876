"""Events out of the steps of the record."""

from __future__ import annotations

from typing import TypeVar

from tests.world.trace import Step

from slackwater.events.codec.body import decode_body
from slackwater.events.envelope import Payload

P = TypeVar("P", bound=Payload)


def payload_of(step: Step, payload: type[P]) -> P | None:
    """The payload of a stored message, if it is of this type. It is decoded once for all invariants, and read only."""
    if not step.subject.startswith(f"sw.v1.{payload.TYPE}."):
        return None
    decoded = step.decoded
    if not decoded:
        decoded.append(decode_body(payload, step.value.body))
    found: P = decoded[0]
    return found
