"""Documents that no writer of ours would write: the agent survives them and harms no pod."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from agent_fakes import NODE
from agent_world import World, eviction, throttle
from tests.support.clock import EPOCH

from slackwater.bus.codec.cloudevents import decode, encode
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.bounds import MOST_CPU_MILLI

ITEM: dict[str, Any] = {
    "id": "e1", "pod_uid": "a", "grace_seconds": 5.0, "deadline": EPOCH.isoformat(), "reason": "r", "decision_id": "d",
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "node": NODE, "writer": "ensurance", "generation": 1, "declared_at": EPOCH.isoformat(), "lease_seconds": 10.0,
    "evictions": [ITEM], "waterlines": [{"metric": "prod_cpu_pressure", "value": 0.2}],
}  # fmt: skip


def headers() -> Any:
    whole = event_of(IntentDeclared.model_validate(DOCUMENT), source="test", time=EPOCH)
    return encode(whole).headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_seconds": float("nan")},
        {"lease_seconds": float("inf")},
        {"lease_seconds": -1.0},
        {"declared_at": "2026-01-05T00:00:00"},
        {"evictions": [ITEM | {"grace_seconds": float("nan")}]},
        {"evictions": [ITEM | {"grace_seconds": -5}]},
        {"evictions": [ITEM | {"grace_seconds": 1e30}]},
        {"evictions": [ITEM | {"deadline": "2026-01-05T00:00:00"}]},
        {"waterlines": [{"metric": "prod_cpu_pressure", "value": float("nan")}]},
        {"throttles": [{"pod_uid": "a", "cpu_limit_milli": -5, "decision_id": "d"}]},
        {"throttles": [{"pod_uid": "a", "cpu_limit_milli": 10**30, "decision_id": "d"}]},
    ],
    ids=json.dumps,
)
def test_what_cannot_be_reckoned_with_is_refused_at_the_door(wrong: dict[str, Any]) -> None:
    assert decode(IntentDeclared, headers(), json.dumps(DOCUMENT).encode()).data.lease_seconds == 10.0
    with pytest.raises(Undecodable):
        decode(IntentDeclared, headers(), json.dumps(DOCUMENT | wrong).encode())


@pytest.mark.parametrize("limit", [0, 1, MOST_CPU_MILLI])
async def test_a_limit_of_any_size_is_within_what_the_machine_takes(world: World, limit: int) -> None:
    async with world.running() as service:
        await world.declare(throttles=[throttle("a", limit)])
        await world.clock.advance(3)
        assert world.driver.limit("a") in ("10", "max", str(MOST_CPU_MILLI))
        await world.declare()
        assert world.driver.limit("a") == "max"
    assert service.restored_exactly


async def test_the_longest_grace_does_not_delay_samples(world: World) -> None:
    world.driver.stubborn.add("a")
    async with world.running():
        await world.declare(evictions=[eviction(world, "a", grace=86400.0)], lease_seconds=10.0, rules="{}")
        await world.clock.advance(30)
        assert len(world.driver.samples) == 31


@pytest.mark.parametrize("rules", ["[]", "7", "{}", '{"policies": {}}', "null", '{"policies": 7, "options": []}'])
async def test_rules_of_any_shape_that_cannot_be_read_are_no_rules(world: World, rules: str) -> None:
    async with world.running():
        await world.declare(throttles=[throttle("a", 400)], lease_seconds=5.0, rules=rules)
        world.driver.pressure = 0.5
        await world.clock.advance(15)
        assert len(world.driver.samples) == 16
        assert world.driver.limit("a") == "max"


async def test_a_disconnected_agent_follows_a_new_owner_whose_clock_is_behind(world: World) -> None:
    """Its epoch makes it the newer owner, whatever its clock shows."""
    from test_agent_disconnected import rules

    async with world.running():
        await world.declare(epoch=1, lease_seconds=10.0, rules=rules())
        await world.clock.advance(20)
        before = world.clock.now() - timedelta(minutes=5)
        await world.declare(epoch=2, declared_at=before, throttles=[throttle("b", 100)])
        assert world.driver.limit("b") == "100"
