"""node.deleted: the node leaves every sum, unless it was described since."""

from __future__ import annotations

from datetime import timedelta

from colocation_scene import Colocation, received

from slackwater.bus.port import Received
from slackwater.events.envelope import event_of
from slackwater.events.node_deleted import DeletionReason, NodeDeleted


def deleted(scene: Colocation, seconds: float = 0) -> Received[NodeDeleted]:
    at = scene.clock.now() + timedelta(seconds=seconds)
    data = NodeDeleted(node="n", reason=DeletionReason.EXPIRED, deleted_by="ingestion", deleted_at=at)
    return received(event_of(data, source="ingestion", time=at))


async def nodes(scene: Colocation) -> list[str]:
    return [state.node for state in await scene.store.states_of(["n"])]


async def test_a_deleted_node_is_dropped_once_and_offered_again_after_a_new_description() -> None:
    scene = Colocation()
    await scene.describe()
    await scene.measure(1, 1000)
    assert await nodes(scene) == ["n"]
    event = deleted(scene)
    await scene.events.on_deleted(event)
    assert await nodes(scene) == []
    await scene.clock.advance(60)
    await scene.describe()
    await scene.events.on_deleted(event)  # redelivered
    await scene.measure(5, 1000)
    assert await nodes(scene) == ["n"]
    assert scene.offers()[-1].batch.cpu_milli > 0


async def test_a_node_that_was_described_after_its_deletion_stays() -> None:
    scene = Colocation()
    await scene.describe()
    await scene.events.on_deleted(deleted(scene, seconds=-3600))
    assert await nodes(scene) == ["n"]
