"""A node that cannot be decided upon is set aside alone; an event that makes it so is refused instead."""

from __future__ import annotations

from typing import Any

import pytest
from colocation_scene import Colocation
from tests.support.windows import described, window

from slackwater.bus.consume.handlers import Verdicts
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Received, Reject
from slackwater.colocation.edge.events import ON_USAGE
from slackwater.colocation.usecases import recompute_offer
from slackwater.colocation.usecases.recompute_offer import recompute_nodes
from slackwater.events.envelope import Event
from slackwater.offers.node import NodeState


def received(event: Event[Any], position: int) -> Received[Any]:
    return Received(event, position, 1, event.data.key())


def break_node(monkeypatch: pytest.MonkeyPatch, node: str, *, only_with_event: bool = False) -> None:
    """Deciding about `node` fails from now on; with `only_with_event` not as it is stored."""
    recompute = recompute_offer.recompute

    def failing(state: NodeState, strategy: Any, now: Any, trigger: Any, *arguments: Any, **more: Any) -> Any:
        if state.node == node and (trigger is not None or not only_with_event):
            raise OverflowError("int too large to convert to float")
        return recompute(state, strategy, now, trigger, *arguments, **more)

    monkeypatch.setattr(recompute_offer, "recompute", failing)


async def scene_of(*nodes: str) -> Colocation:
    scene = Colocation()
    for node in nodes:
        await scene.events.on_described([received(described(node), 1)])
    return scene


async def test_a_node_that_fails_by_itself_is_set_aside_and_the_others_are_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = await scene_of("a", "b", "c")
    break_node(monkeypatch, "b")
    await scene.events.on_usage([received(window(node, 1, {"p": 500}), n) for n, node in enumerate("abc", 1)])
    assert scene.offering.quarantine.holds_node("b")
    assert not scene.offering.quarantine.holds_node("a")
    assert {offer.node for offer in scene.offers()} >= {"a", "c"}
    await recompute_nodes(scene.offering, ["a", "b", "c"])
    assert list(scene.offering.quarantine.nodes) == ["b"]


async def test_an_event_that_makes_its_node_fail_is_refused_and_the_node_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await scene_of("a", "b")
    break_node(monkeypatch, "b", only_with_event=True)
    handler = Verdicts(ON_USAGE, scene.events.on_usage, Counters())
    verdicts = await handler([received(window("b", 1, {"p": 500}), 1)])
    assert isinstance(verdicts[0], Reject)
    assert verdicts[0].reason == "uncomputable"
    assert not scene.offering.quarantine.holds_node("b")
