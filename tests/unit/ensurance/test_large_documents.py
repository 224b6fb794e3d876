"""What documents expand to in each node's intent is bounded when they are accepted, and nodes keep their rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from guard_documents import BE, DocumentScene

from slackwater.bus.codec.cloudevents import encode
from slackwater.ensurance.usecases.documents_in_force import MOST_RULES_BYTES
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.errors import InvalidInput
from slackwater.resources.kinds.pod_qos import POD_QOS


def scope(expressions: int, characters: int = 20) -> dict[str, Any]:
    values = [[f"{'x' * characters}-{number}"] for number in range(expressions)]
    terms = [{"scopeName": "Namespace", "operator": "NotIn", "values": each} for each in values]
    return {"scopeSelector": {"matchExpressions": terms}, "allowedActions": ["throttle"]}


async def applied(scene: DocumentScene) -> AsyncIterator[str]:
    """Applies documents until one is refused."""
    for name in map("p{}".format, range(60)):
        try:
            await scene.apply(POD_QOS, name, scope(200, 60))
        except InvalidInput:
            return
        yield name


async def test_one_document_that_fits_no_message_is_refused_and_nothing_is_stored() -> None:
    scene = await DocumentScene().open("n1")
    await scene.apply(POD_QOS, "default", BE)
    with pytest.raises(InvalidInput, match=r"spec: with podqos wide .* 524288 are allowed") as refusal:
        await scene.apply(POD_QOS, "wide", scope(10_000))
    assert (refusal.value.code, refusal.value.field) == ("rules_too_large", "spec")
    assert [document.name for document in await scene.changes[POD_QOS].all()] == ["default"]
    assert len(scene.documents.documents.pods) == 1


async def test_many_small_documents_are_bounded_together_and_their_intents_can_be_sent() -> None:
    scene = await DocumentScene().open("n1")
    accepted = [name async for name in applied(scene)]
    assert 10 < len(accepted) < 60
    intents = [event for event in scene.database.published if isinstance(event.data, IntentDeclared)]
    sizes = [len(encode(event).body) for event in intents]
    assert MOST_RULES_BYTES // 2 < max(sizes) < MOST_RULES_BYTES + 10_000
