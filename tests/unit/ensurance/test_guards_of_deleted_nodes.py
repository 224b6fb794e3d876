"""node.deleted: the node's row, lease and gauges go, unless it was described since."""

from __future__ import annotations

from datetime import timedelta

from ensurance_scene import Scene, described, reported

from slackwater.events.envelope import Event, event_of
from slackwater.events.node_deleted import DeletionReason, NodeDeleted

REMAINING = "slackwater_ensurance_remaining_gap_cores"


def deleted(scene: Scene, seconds: float = 0) -> Event[NodeDeleted]:
    at = scene.clock.now() + timedelta(seconds=seconds)
    data = NodeDeleted(node="n1", reason=DeletionReason.OPERATOR, deleted_by="ada", deleted_at=at)
    return event_of(data, source="ingestion", time=at)


async def test_a_deleted_node_leaves_nothing_and_begins_anew_when_it_is_back() -> None:
    scene = await Scene().open()
    await scene.guard(reported(1, at=scene.clock.now(), pressure=0.9))
    assert "n1" in scene.rows
    await scene.clock.advance(60)
    await scene.delete(deleted(scene))
    assert "n1" not in scene.rows
    assert scene.cache.node("n1") is None
    assert "n1" not in scene.cache.contacts.last_report_at
    assert not scene.registry.get_sample_value(REMAINING)
    await scene.delete(deleted(scene))  # redelivered, or never known
    await scene.clock.advance(60)
    await scene.describe(described(at=scene.clock.now()))
    again = scene.cache.node("n1")
    assert again is not None
    assert (again.generation, again.decisions) == (1, ())


async def test_a_node_that_was_described_after_its_deletion_stays() -> None:
    scene = await Scene().open()
    await scene.delete(deleted(scene, seconds=-1))
    assert scene.cache.node("n1") is not None
    await scene.describe(described(at=scene.clock.now() - timedelta(hours=1)))  # redelivered
    await scene.delete(deleted(scene, seconds=-1))
    assert scene.cache.node("n1") is not None
