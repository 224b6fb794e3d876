"""Events out of the steps of the record."""

from __future__ import annotations

from typing import TypeVar

from tests.world.trace import Step

from slackwater.events.envelope import Payload

P = TypeVar("P", bound=Payload)


def payload_of(step: Step, payload: type[P]) -> P | None:
    """The payload of a stored message, if it is of this type."""
    if not step.subject.startswith(f"sw.v1.{payload.TYPE}."):
        return None
    return payload.model_validate_json(step.value.body)
