"""Reports that wait in the stream do not make a node silent."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from ingestion_world import SILENCE, World
from tests.support.reports import received, report

from slackwater.bus.port import Received
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.usecases.consumer_lag import ConsumerLag
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.model.nodes import Liveness


async def test_waiting_reports_make_no_node_stale_and_close_no_window() -> None:
    """Half a minute behind: a node that reported then is heard only now, and those after it not yet."""
    world = World()
    await world.report(1)
    await world.report(1, node="m")
    hearing = ConsumerLag(world.clock)
    watch = WatchLiveness(
        world.database, world.books.ledgers(), world.clock, SILENCE, world._hearing, received_until=hearing.until
    )
    close = world.closer(hearing.until)
    began = world.clock.now()
    for _ in range(40):  # what is taken was stored when we had just fallen behind
        await world.clock.advance(2)
        hearing.record([waited(node, began) for node in ("n", "m")], world.clock.now())
        assert await watch() == await close() == 0
    hearing.record([waited("n", began + timedelta(seconds=16))], world.clock.now())
    assert await watch() == 1  # n's partition is read up to there, m's is not
    assert world.liveness() == [Liveness.FRESH, Liveness.STALE]
    assert world.liveness("m") == [Liveness.FRESH]
    await world.clock.advance(16)  # nothing more came: nothing waits
    assert await watch() == 2
    assert world.liveness("m")[1:] == [Liveness.LOST]


def waited(node: str, stored_at: datetime) -> Received[UsageReported]:
    return replace(received(report(node, 2, stored_at)), stored_at_seconds=stored_at.timestamp())
