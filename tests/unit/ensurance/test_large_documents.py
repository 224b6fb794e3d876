"""What documents expand to in each node's intent is bounded when they are accepted, and nodes keep their rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from guard_documents import BE, DocumentScene

from slackwater.bus.codec.cloudevents import encode
from slackwater.events.codec.packed import unpack
from slackwater.events.intent_declared import MOST_RULES_BYTES, IntentDeclared
from slackwater.model.errors import InvalidInput
from slackwater.resources.kinds.pod_qos import POD_QOS
from slackwater.waterline.rules_codec import decode_rules, encode_rules


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
    rules = [encode_rules(*decode_rules(unpack(one.data.rules, MOST_RULES_BYTES, MOST_RULES_BYTES))) for one in intents]
    assert MOST_RULES_BYTES // 2 < max(map(len, rules)) <= MOST_RULES_BYTES
    assert max(len(encode(event).body) for event in intents) < MOST_RULES_BYTES // 10, "what repeats is sent once"


@pytest.mark.parametrize(("count", "values"), [(20, ["x" * 60] * 100), (300, ["x"] * 100)])
async def test_what_is_accepted_an_agent_reads_and_what_it_would_not_read_is_refused(
    count: int, values: list[str]
) -> None:
    scene, read = await DocumentScene().open("n1"), 0
    for number in range(8):
        terms = [{"scopeName": "Namespace", "operator": "NotIn", "values": values}] * count
        spec = {"scopeSelector": {"matchExpressions": terms}, "allowedActions": ["throttle"]}
        try:
            await scene.apply(POD_QOS, f"p{number}", spec)
        except InvalidInput as error:
            assert error.code == "rules_too_large"  # noqa: PT017 - the first ones are accepted
            break
        rules = scene.intents()[-1].rules
        policies, _ = decode_rules(unpack(rules, MOST_RULES_BYTES, MOST_RULES_BYTES))
        read = max(read, len(policies.pods))
    assert 1 < read < 7
