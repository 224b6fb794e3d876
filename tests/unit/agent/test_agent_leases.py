"""Leases on the agent's side: the owner renews them by naming the last report of this node that it has read."""

from __future__ import annotations

from typing import Any

import pytest
from agent_fakes import NODE, pod
from agent_world import World, throttle
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.domain.stored_reports import KEPT_SECONDS, StoredReports
from slackwater.events.envelope import event_of
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.model.identifiers import partition_of

LEASE = 15.0
MINE = partition_of(NODE)


@pytest.fixture
def world() -> World:
    found = World()
    found.driver.add(pod("a"))
    found.driver.rates = {"a": 1000}
    return found


async def tell(world: World, **more: Any) -> None:
    """Ensurance says that it is there and has read everything, unless told otherwise."""
    said: dict[str, Any] = {
        "writer": "ensurance", "partition": MINE, "epoch": 7, "read_up_to": world.bus.broker.ends("USAGE")[1],
        "heard_within_seconds": 60.0, "sent_at": world.clock.now(), **more,
    }  # fmt: skip
    await world.bus.broadcast(event_of(LeaseRenewed.model_validate(said), source="test", time=world.clock.now()))


async def limited(world: World, **more: Any) -> None:
    """A limit is in force, and some reports are stored."""
    await world.declare(**{"epoch": 7, "lease_seconds": LEASE, "throttles": [throttle("a", 500)], **more})
    await world.clock.advance(12)
    assert world.driver.limit("a") == "500"


async def test_a_lease_lives_while_a_consumer_reads_our_reports(world: World) -> None:
    async with world.running():
        await limited(world)
        for _ in range(20):
            await tell(world)
            await world.clock.advance(10)
            assert world.driver.limit("a") == "500"
        await world.clock.advance(LEASE - 10.5)
        assert world.driver.limit("a") == "500"
        await world.clock.advance(1.0)
        assert world.driver.limit("a") != "500"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"blocked": (NODE,)}, "our reports are left unread"),
        ({"read_up_to": 0}, "a replica that has just taken over has read nothing"),
        ({"epoch": 6}, "a former owner of the partition publishes late"),
        ({"writer": "migration"}, "another writer's lease"),
        ({"partition": (MINE + 1) % 8}, "another partition"),
        ({"heard_within_seconds": 5.0, "read_up_to": 1}, "its last read report is old"),
    ],
)
async def test_what_does_not_speak_of_us_renews_nothing(world: World, said: dict[str, Any], why: str) -> None:
    async with world.running(report_seconds=4.0):
        await limited(world)
        await world.clock.advance(2)
        await tell(world, **said)
        await world.clock.advance(2)
        assert world.driver.limit("a") != "500", why


async def test_the_successor_of_an_owner_renews_its_documents(world: World) -> None:
    async with world.running():
        await limited(world)
        await tell(world, epoch=8)
        await world.clock.advance(10)
        assert world.driver.limit("a") == "500"


async def test_when_our_reports_are_stored_no_more_the_lease_runs_out_although_its_owner_speaks(world: World) -> None:
    """Half a line: the owner's messages arrive, the agent's do not."""
    async with world.running():
        await limited(world)
        read = world.bus.broker.ends("USAGE")[1]
        world.bus.broker.refuses_to_store = True
        for _ in range(8):
            await tell(world, read_up_to=read)
            await world.clock.advance(10)
        assert world.driver.limit("a") != "500"


async def test_a_document_without_duration_is_never_renewed(world: World) -> None:
    async with world.running():
        await limited(world)
        await world.declare(epoch=7, lease_seconds=0.0, throttles=[throttle("a", 500)])
        await tell(world)
        await world.clock.advance(1)
        assert world.driver.limit("a") != "500"
        await world.declare(epoch=7, lease_seconds=LEASE, throttles=[throttle("a", 500)])
        assert world.driver.limit("a") == "500"


async def test_a_writer_without_leases_is_renewed_by_its_documents_only(world: World) -> None:
    async with world.running():
        await limited(world, epoch=0)
        await tell(world)
        await world.clock.advance(5)
        assert world.driver.limit("a") != "500"


async def test_a_lapsed_document_is_in_force_again_with_the_first_renewal(world: World) -> None:
    async with world.running():
        await limited(world)
        await world.clock.advance(20)
        assert world.driver.limit("a") == "max"
        await tell(world)
        await world.clock.advance(1)
        assert world.driver.limit("a") == "500"


async def test_the_same_document_once_more_renews_nothing(world: World) -> None:
    """A reader that begins again gets the last document, which may be of any age."""
    async with world.running() as service:
        event = await world.declare(epoch=7, lease_seconds=LEASE, throttles=[throttle("a", 500)])
        await world.clock.advance(12)
        running = service._running
        assert running is not None
        await running.intents.receive(event)
        await world.clock.advance(4)
        assert world.driver.limit("a") != "500"


# ---- where our reports stand


def test_a_stream_that_begins_anew_makes_the_earlier_positions_void() -> None:
    stored = StoredReports()
    stored.add(5000, 0.0)
    stored.add(3, 5.0)
    assert stored.is_read(5000, 60, 6.0), "3 is before it, whatever the source"
    assert not stored.is_read(2, 60, 6.0)
    assert stored.is_read(3, 60, 6.0)


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.floats(0.0, 30.0)), max_size=200),
    st.integers(0, 1000),
    st.floats(0.1, 120.0),
)
def test_only_what_was_stored_lately_and_read_counts_and_little_is_kept(
    steps: list[tuple[int, float]], up_to: int, within: float
) -> None:
    stored, now, noted = StoredReports(), 0.0, list[tuple[int, float]]()
    for position, pause in steps:
        now += pause
        stored.add(position, now)
        noted.append((position, now))
    if stored.is_read(up_to, within, now):
        assert any(position <= up_to and now - at <= within for position, at in noted)
    assert len(stored._known) <= KEPT_SECONDS + 1


@given(st.integers(1, 50), st.floats(1.0, 20.0), st.integers(0, 100))
def test_reports_are_read_if_the_sequence_includes_one_of_the_last_minute(
    reports: int, interval: float, up_to: int
) -> None:
    stored = StoredReports()
    for number in range(1, reports + 1):
        stored.add(2 * number, number * interval)
    now = reports * interval
    wanted = any(2 * n <= up_to and now - n * interval <= 60.0 for n in range(1, reports + 1))
    assert stored.is_read(up_to, 60.0, now) is wanted
