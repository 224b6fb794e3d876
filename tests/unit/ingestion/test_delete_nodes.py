"""Nodes are deleted by operators once they are lost, and by themselves after a time; a report brings one back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingestion_world import World
from tests.support.reports import described

from slackwater.bus.port import Received
from slackwater.events.envelope import event_of
from slackwater.events.node_deleted import DeletionReason, NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.ingestion.settings import IngestionSettings
from slackwater.ingestion.usecases.count_nodes import CountNodes
from slackwater.ingestion.usecases.delete_nodes import DeleteNodes, ExpireNodes
from slackwater.model.errors import Conflict, NotFound
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.nodes import Liveness

NODE = "n"
GONE, LOST = IngestionSettings().gone_seconds, IngestionSettings().lost_seconds


def deleting(world: World) -> DeleteNodes:
    return DeleteNodes(world.database, world.books.ledgers(), world.clock, LOST)


def expiring(world: World) -> ExpireNodes:
    gone = timedelta(seconds=GONE)
    return ExpireNodes(world.database, world.books.ledgers(), world.clock, lambda: ALL_PARTITIONS, gone)


async def describe(world: World, seconds_ago: float = 0) -> None:
    data = described(NODE, world.clock.now() - timedelta(seconds=seconds_ago))
    await world.describe(Received(event_of(data, source="tests", time=data.described_at), 0, 1, NODE))


async def silent(world: World, seconds: float) -> None:
    await world.clock.advance(seconds)
    await world.watch()


async def counts(world: World) -> dict[str, float | None]:
    gone = timedelta(seconds=GONE)
    await CountNodes(world.database, world.books.ledgers(), world.meter, clock=world.clock, lost_for=gone)()
    name = "slackwater_ingestion_known_nodes"
    return {kind: world.registry.get_sample_value(name, {"liveness": kind}) for kind in ("fresh", "lost", "silent")}


async def test_a_node_that_reports_is_not_deleted_and_the_answer_says_what_to_do() -> None:
    world = World()
    await world.report(1)
    await world.clock.advance(4)
    with pytest.raises(Conflict, match=r"reported 4 s ago.*stop its agent first: 60 s after"):
        await deleting(world)(NODE, "ada")
    await silent(world, 20)  # stale
    with pytest.raises(Conflict) as refused:
        await deleting(world)(NODE, "ada")
    assert refused.value.code == "node_reports"
    assert not world.published(NodeDeleted)


async def test_a_lost_node_is_deleted_once_and_a_dry_run_deletes_nothing() -> None:
    world = World()
    await world.report(1)
    await silent(world, LOST + 1)
    await deleting(world)(NODE, "ada", dry_run=True)
    assert not world.published(NodeDeleted)
    assert (await counts(world))["lost"] == 1
    await deleting(world)(NODE, "ada")
    (deleted,) = world.published(NodeDeleted)
    assert (deleted.node, deleted.reason, deleted.deleted_by) == (NODE, DeletionReason.OPERATOR, "ada")
    assert set((await counts(world)).values()) <= {0, None}
    for name in (NODE, "never-seen"):
        with pytest.raises(NotFound) as unknown:
            await deleting(world)(name, "ada")
        assert unknown.value.code == "node_not_found"


async def test_a_node_that_reports_again_is_described_again_before_it_is_fresh() -> None:
    world = World()
    await describe(world)
    await world.report(1)
    await silent(world, LOST + 1)
    await deleting(world)(NODE, "ada")
    before = len(world.database.published)
    await world.clock.advance(30)
    await world.report(2)
    again, fresh = (event.data for event in world.database.published[before:])
    assert isinstance(again, NodeDescribed)
    assert again.facts == world.books.facts[NODE]
    assert again.described_at > world.published(NodeDeleted)[0].deleted_at
    assert isinstance(fresh, NodeLivenessChanged)
    assert (fresh.previous, fresh.liveness) == (None, Liveness.FRESH)
    assert (await counts(world))["fresh"] == 1
    await world.report(3)
    assert len(world.published(NodeDescribed)) == 1


async def test_a_new_description_ends_the_deletion_and_an_old_one_does_not() -> None:
    world = World()
    await describe(world)
    await world.report(1)
    await silent(world, LOST + 1)
    await deleting(world)(NODE, "ada")
    await describe(world, seconds_ago=30)
    assert world.books.nodes[NODE].deleted_at is not None
    await world.clock.advance(1)
    await describe(world)
    assert world.books.nodes[NODE].deleted_at is None


async def test_lost_and_never_reporting_nodes_expire_when_they_are_gone() -> None:
    world = World()
    await describe(world)
    assert await expiring(world)() == 0
    await silent(world, GONE + 1)
    assert await expiring(world)() == 1  # described, never reported
    await world.report(1)
    await silent(world, GONE - 1)
    assert await expiring(world)() == 0
    await silent(world, 2)
    assert await expiring(world)() == 1
    assert [event.reason for event in world.published(NodeDeleted)] == [DeletionReason.EXPIRED] * 2
    assert await expiring(world)() == 0


@given(st.lists(st.sampled_from(["report", "describe", "wait", "lose", "delete", "expire"]), max_size=25))
async def test_a_node_is_listed_exactly_if_it_was_described_or_reported_after_its_deletion(steps: list[str]) -> None:
    world, number = World(), 0
    listed = False
    for step in steps:
        await world.clock.advance(1)
        match step:
            case "report":
                number += 1
                await world.report(number)
                listed = True
            case "describe":
                await describe(world)
                listed = True
            case "wait" | "lose":
                await silent(world, {"wait": 5, "lose": GONE + 1}[step])
            case "delete":
                try:
                    await deleting(world)(NODE, "ada")
                    assert listed
                    listed = False
                except (Conflict, NotFound):
                    pass
            case "expire":
                listed = listed and not await expiring(world)()
        known = world.books.nodes.get(NODE)
        assert listed == (known is not None and known.deleted_at is None)
        assert sum(value or 0 for value in (await counts(world)).values()) <= listed
