"""Two agents with one node name: found, announced and refused by that name; a restart of one agent is none of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ingestion_world import World
from tests.support.clock import EPOCH
from tests.support.reports import received, report

from slackwater.bus.port import Done, Reject
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.ingestion.domain.validation import Refusal
from slackwater.model.nodes import Liveness

OLD, NEW = "boot-1", "boot-2"
INTERVAL = 5


@pytest.fixture
def world() -> World:
    return World()


def announced(world: World) -> list[NodeLivenessChanged]:
    return [change for change in world.published(NodeLivenessChanged) if change.duplicate is not None]


async def reported(world: World, sequence: int, boot: str, behind: float = 0.0, deliveries: int = 1) -> str:
    """The verdict on a report of this boot whose clock is behind: `done`, or the reason of the refusal."""
    data = report("n", sequence, world.clock.now() - timedelta(seconds=behind), boot_epoch=boot)
    [verdict] = await world.accept([received(data, deliveries=deliveries)])
    assert isinstance(verdict, Done | Reject)
    return verdict.reason if isinstance(verdict, Reject) else "done"


async def both(world: World, intervals: int, behind: float = 0.0) -> list[str]:
    """The verdicts on the old agent, which reports beside the new one."""
    verdicts = []
    for _ in range(intervals):
        await world.clock.advance(INTERVAL)
        elapsed = int((world.clock.now() - EPOCH).total_seconds())
        assert await reported(world, 100 + elapsed, NEW) == "done"
        verdicts.append(await reported(world, 200 + elapsed, OLD, behind))
    return verdicts


async def test_a_copy_of_an_agents_machine_is_named_too(world: World) -> None:
    """It has the boot and the sequence of the first: only what it measured, and when, is another."""
    verdicts = []
    for sequence in range(1, 20):
        assert await reported(world, sequence, NEW) == "done"
        await world.clock.advance(INTERVAL / 2)
        verdicts.append(await reported(world, sequence, NEW))
        await world.clock.advance(INTERVAL / 2)
    assert verdicts == [Refusal.REPLAYED_SEQUENCE] * 7 + [Refusal.DUPLICATE_AGENT] * 12
    assert announced(world)


async def test_reports_that_come_again_are_no_second_agent(world: World) -> None:
    for sequence in range(1, 20):
        sampled_at = world.clock.now()
        assert await reported(world, sequence, NEW) == "done"
        await world.clock.advance(INTERVAL)
        behind = (world.clock.now() - sampled_at).total_seconds()
        assert await reported(world, sequence, NEW, behind) == Refusal.REPLAYED_SEQUENCE
    assert not announced(world)


@pytest.mark.parametrize("behind", [0.0, 20.0], ids=["clocks agree", "clock behind"])
async def test_a_second_agent_is_named_once_both_have_reported_for_half_a_minute(world: World, behind: float) -> None:
    assert await reported(world, 200, OLD, behind) == "done"
    await world.clock.advance(INTERVAL)
    assert await reported(world, 100, NEW) == "done"
    began = world.clock.now()
    assert await both(world, 6, behind) == [Refusal.REPLAYED_SEQUENCE] * 6
    assert announced(world) == []
    assert await both(world, 30, behind) == [Refusal.DUPLICATE_AGENT] * 30
    first, *others = announced(world)
    assert len(others) == 2, "once a minute"
    assert first.duplicate is not None
    assert first.duplicate.since == began + timedelta(seconds=INTERVAL)
    assert first.duplicate.until == first.changed_at + timedelta(seconds=150)
    assert (first.liveness, first.previous) == (Liveness.FRESH, Liveness.FRESH)
    assert world.books.refusals["n", Refusal.DUPLICATE_AGENT] == 30
    refused = world.registry.get_sample_value(
        "slackwater_ingestion_reports_refused_total", {"reason": "duplicate_agent"}
    )
    assert refused == 30, "what the alert is made of"


async def test_the_refusal_says_what_to_do(world: World) -> None:
    await reported(world, 1, OLD)
    await both(world, 7)
    data = report("n", 300, world.clock.now(), boot_epoch=OLD)
    [verdict] = await world.accept([received(data)])
    assert verdict == Reject(
        Refusal.DUPLICATE_AGENT,
        "boot_epoch: boot-1 reports beside boot-2: two agents have the node name n; stop one of them, or give it a "
        "name of its own with --node",
    )


async def test_what_a_replaced_agent_sent_late_names_no_second_one(world: World) -> None:
    await reported(world, 1, OLD)
    await world.clock.advance(INTERVAL)
    await reported(world, 1, NEW)
    for sequence in range(2, 40):  # its buffer, at once
        assert await reported(world, sequence, OLD) == Refusal.REPLAYED_SEQUENCE
    for sequence in range(2, 40):
        await world.clock.advance(INTERVAL)
        assert await reported(world, sequence, NEW) == "done"
        assert await reported(world, sequence, OLD, deliveries=2) == "done", "a redelivery is none"
    assert await reported(world, 50, OLD) == Refusal.REPLAYED_SEQUENCE
    assert announced(world) == []


async def test_an_agent_whose_clock_was_set_back_takes_over_and_is_no_second_one(world: World) -> None:
    await reported(world, 1, OLD)
    for sequence in range(1, 30):  # the old one is gone, and ingestion has not noticed
        await world.clock.advance(INTERVAL)
        assert await reported(world, sequence, NEW, behind=600) == Refusal.REPLAYED_SEQUENCE
    assert announced(world) == []


async def test_a_second_agent_that_went_and_came_again_has_to_show_itself_again(world: World) -> None:
    await reported(world, 1, OLD)
    await both(world, 8)
    assert len(announced(world)) == 1
    for sequence in range(300, 320):
        await world.clock.advance(INTERVAL)
        await reported(world, sequence, NEW)
    assert await reported(world, 400, OLD) == Refusal.REPLAYED_SEQUENCE
    assert len(announced(world)) == 1
