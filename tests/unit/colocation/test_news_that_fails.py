"""Windows that colocation cannot compute with cost themselves: offers of the other nodes are as without them."""

from __future__ import annotations

from typing import Any

from colocation_scene import Colocation
from tests.support.windows import described, window

from slackwater.bus.consume.handlers import Verdicts
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Done, Received, Reject
from slackwater.events.envelope import Event
from slackwater.events.usage_windowed import UsageWindowed


def received(event: Event[Any], position: int) -> Received[Any]:
    return Received(event, position, 1, event.data.key())


def spoilt(event: Event[UsageWindowed]) -> Event[UsageWindowed]:
    """It ends after the last year that there is."""
    return event.model_copy(update={"data": event.data.model_copy(update={"window_seconds": 10**15})})


async def offers_after(batch: list[Event[UsageWindowed]]) -> tuple[Colocation, list[object]]:
    scene = Colocation()
    for node in ("a", "b", "c"):
        await scene.events.on_described([received(described(node), 1)])
    handler = Verdicts("colocation-usage-windowed", scene.events.on_usage, Counters())
    verdicts = await handler([received(event, number) for number, event in enumerate(batch, 1)])
    return scene, list(verdicts)


async def test_a_window_without_an_end_costs_itself_and_the_others_are_counted_once() -> None:
    good = [window("a", 1, {"p": 500}), window("b", 1, {"p": 700}), window("a", 2, {"p": 900})]
    undisturbed, _ = await offers_after(good)
    scene, verdicts = await offers_after([good[0], spoilt(window("c", 1, {"p": 1})), *good[1:]])
    reject = verdicts[1]
    assert isinstance(reject, Reject)
    assert reject.reason == "uncomputable"
    assert "OverflowError" in reject.detail
    assert not scene.offering.quarantine.nodes
    assert [verdict == Done() for verdict in verdicts] == [True, False, True, True]
    for node in ("a", "b"):
        state, other = scene.store.states[node], undisturbed.store.states[node]
        assert (state.batch, state.mid, state.generation) == (other.batch, other.mid, other.generation)
    assert len(scene.offers()) == len(undisturbed.offers())
