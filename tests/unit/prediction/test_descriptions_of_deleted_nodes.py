"""node.deleted: the description goes, unless a newer one is stored."""

from __future__ import annotations

from datetime import timedelta

from prediction_memory import MemoryPredictionStore
from test_windows_that_fail import POLICY
from tests.support.clock import EPOCH
from tests.support.reports import described

from slackwater.events.node_deleted import DeletionReason, NodeDeleted
from slackwater.prediction.usecases.describe_node import describe_node
from slackwater.prediction.usecases.drop_node import drop_node
from slackwater.prediction.usecases.partition_store import LivingState


def deleted(seconds: float) -> NodeDeleted:
    at = EPOCH + timedelta(seconds=seconds)
    return NodeDeleted(node="n", reason=DeletionReason.EXPIRED, deleted_by="ingestion", deleted_at=at)


async def test_a_description_ends_with_its_node_and_a_newer_one_stays() -> None:
    store = MemoryPredictionStore()
    living = LivingState(store, POLICY)
    await describe_node(living, described("n", EPOCH))
    await drop_node(living, deleted(-1))
    assert "n" in living.nodes
    await drop_node(living, deleted(1))
    assert "n" not in living.nodes
    assert "n" not in await store.nodes()
    await drop_node(living, deleted(1))
    await describe_node(living, described("n", EPOCH + timedelta(seconds=2)))
    assert list(await store.nodes()) == ["n"]
