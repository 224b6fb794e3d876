"""What documents expand to in each node's intent is bounded when they are accepted, and nodes keep their rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from guard_documents import BE, DocumentScene

from slackwater.bus.codec.cloudevents import encode
from slackwater.ensurance.adapters.guard_rows import KeyedGuardStore, KeyedGuardUnit
from slackwater.ensurance.usecases.follow_rules import AT_ONCE
from slackwater.events.codec.packed import unpack
from slackwater.events.intent_declared import MOST_RULES_BYTES, IntentDeclared
from slackwater.model.errors import InvalidInput
from slackwater.resources.kinds.pod_qos import POD_QOS
from slackwater.waterline.rules_codec import decode_rules, encode_rules


def scope(expressions: int, characters: int = 20, *, unlike: bool = False) -> dict[str, Any]:
    random = Random(7)

    def name(number: int) -> str:
        return random.randbytes(characters // 2).hex() if unlike else f"{'x' * characters}-{number}"

    values = [[name(number)] for number in range(expressions)]
    terms = [{"scopeName": "Namespace", "operator": "NotIn", "values": each} for each in values]
    return {"scopeSelector": {"matchExpressions": terms}, "allowedActions": ["throttle"]}


class SlowStore(KeyedGuardStore):
    """Lets other tasks run in each transaction."""

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[KeyedGuardUnit]:
        for _ in range(20):
            await asyncio.sleep(0)
        async with super().unit_of_work() as unit:
            yield unit


async def slow_scene(nodes: int) -> DocumentScene:
    scene = DocumentScene()
    scene.store = SlowStore(scene.database)
    scene.start()
    return await scene.open(*(f"n{number}" for number in range(nodes)))


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


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (lambda: scope(2000, 200, unlike=True), "bytes when packed; 65536 are allowed"),
        (lambda: {"labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}] * 11_000}}, "values"),
    ],
)
async def test_what_each_intent_and_record_would_repeat_is_bounded(spec: Any, problem: str) -> None:
    scene = await DocumentScene().open("n1")
    with pytest.raises(InvalidInput, match=problem) as refusal:
        await scene.apply(POD_QOS, "wide", spec() | {"allowedActions": ["throttle"]})
    assert refusal.value.code == "rules_too_large"


async def test_decisions_go_on_between_the_nodes_that_follow_a_document() -> None:
    scene = await slow_scene(3 * AT_ONCE)
    names = [node.node for node in scene.cache.nodes()]
    generations = {node.node: node.generation for node in scene.cache.nodes()}
    followed = list[int]()

    async def change() -> None:
        """What a decision on the last node does while the others follow."""
        while scene.cache.rules.revision == before:
            await asyncio.sleep(0)
        async with scene.cache.lock(names[-1]):
            followed.append(sum(node.generation > generations[node.node] for node in scene.cache.nodes()))

    before = scene.cache.rules.revision
    changing = asyncio.create_task(change())
    await scene.apply(POD_QOS, "default", BE)
    await changing
    assert followed[0] < len(names)
    assert all(node.generation == generations[node.node] + 1 for node in scene.cache.nodes())


async def test_of_many_changes_at_once_each_node_declares_the_last() -> None:
    scene = await slow_scene(2 * AT_ONCE)
    generations = {node.node: node.generation for node in scene.cache.nodes()}
    await asyncio.gather(*(scene.apply(POD_QOS, f"p{number}", BE) for number in range(10)))
    assert {node.policy_generation for node in scene.cache.nodes()} == {scene.cache.rules.revision}
    assert all(node.generation < generations[node.node] + 10 for node in scene.cache.nodes())


async def test_an_unchanged_document_leaves_the_rulebook_as_it_is() -> None:
    scene = await DocumentScene().open("n1")
    rules = scene.cache.rules
    await scene.follow.catch_up()
    assert scene.cache.rules is rules
