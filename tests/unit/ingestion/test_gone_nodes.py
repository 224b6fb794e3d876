"""A removed node is lost, then gone: it ends its own alert, and counts again when it reports."""

from __future__ import annotations

from datetime import timedelta

from ingestion_world import World

from slackwater.ingestion.settings import IngestionSettings
from slackwater.ingestion.usecases.count_nodes import CountNodes

GONE = IngestionSettings().gone_seconds


async def lost(world: World) -> float | None:
    count = CountNodes(
        world.database, world.books.ledgers(), world.meter, clock=world.clock, lost_for=timedelta(seconds=GONE)
    )
    await count()
    return world.registry.get_sample_value("slackwater_ingestion_known_nodes", {"liveness": "lost"})


async def test_a_lost_node_is_counted_until_it_is_gone_and_again_when_it_is_back() -> None:
    world = World()
    await world.report(1)
    await world.clock.advance(GONE - 1)
    await world.watch()
    assert await lost(world) == 1
    await world.clock.advance(2)
    await world.watch()
    assert await lost(world) == 0
    await world.report(2)
    await world.clock.advance(GONE - 1)
    await world.watch()
    assert await lost(world) == 1
