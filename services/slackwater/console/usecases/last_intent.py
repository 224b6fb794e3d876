"""Reads the last intent of a node from the broker on request, because storing every renewal would cost far more."""

from __future__ import annotations

from pydantic import ValidationError

from slackwater.bus.admin.broker_admin import BrokerAdmin
from slackwater.console.domain.views import IntentView
from slackwater.console.usecases.translate import intent_view
from slackwater.events.envelope import subjects_of
from slackwater.events.intent_declared import IntentDeclared


async def last_intent(desk: BrokerAdmin, node: str) -> IntentView | None:
    """The last intent; None if there is none, or it cannot be parsed. Raises Unavailable."""
    body = await desk.last_body(subjects_of(IntentDeclared, node))
    if body is None:
        return None
    try:
        return intent_view(IntentDeclared.model_validate_json(body))
    except ValidationError:
        return None
