"""Blocking and unblocking agents: what is kept, what is published, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH, FakeClock
from tests.support.ingestion.blocks import MemoryBlocks
from tests.support.ingestion.ledger import Books
from tests.support.store import MemoryDatabase

from slackwater.events.agent_block_changed import REASON_CHARACTERS, AgentBlockChanged
from slackwater.ingestion.domain.blocks import LONGEST_REASON, AgentBlock, blocked, checked_reason
from slackwater.ingestion.usecases.block_agents import AnnounceBlocks, BlockAgents
from slackwater.model.errors import Conflict, InvalidInput, NotFound
from slackwater.model.identifiers import partition_of
from slackwater.store.quarantine_memory import unstored


def anything(present: AgentBlock | None) -> None:
    """No precondition."""


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.database = MemoryDatabase()
        self.blocks = MemoryBlocks()
        self.agents = BlockAgents(self.database, self.blocks.books(), Books().ledgers(), self.clock)

    async def block(self, node: str = "n", reason: str = "poison", *, dry_run: bool = False) -> AgentBlock:
        return (await self.agents.block(node, reason, "ada", precondition=anything, dry_run=dry_run)).block

    async def unblock(self, node: str = "n") -> AgentBlock:
        return (await self.agents.unblock(node, "bob", precondition=anything)).block

    @property
    def published(self) -> list[AgentBlockChanged]:
        return [event.data for event in self.database.published]


@pytest.fixture
def world() -> World:
    return World()


async def test_a_block_is_kept_with_author_reason_and_time_and_published(world: World) -> None:
    await world.block(reason="  sends\n poison ")
    expected = AgentBlock("n", 1, blocked=True, reason="sends poison", changed_by="ada", since=EPOCH)
    assert await world.agents.read("n") == expected
    assert await world.agents.in_force() == [expected]
    (event,) = world.published
    assert (event.node, event.blocked, event.reason, event.changed_by) == ("n", True, "sends poison", "ada")
    assert event.since == EPOCH


async def test_the_end_of_a_block_is_kept_and_published_with_what_it_ended(world: World) -> None:
    await world.block()
    await world.clock.advance(5)
    ended = await world.unblock()
    assert (ended.generation, ended.blocked, ended.reason, ended.changed_by) == (2, False, "poison", "bob")
    assert [event.blocked for event in world.published] == [True, False]
    assert await world.agents.in_force() == []
    assert [change.changed_by for change in world.blocks.changes["n"]] == ["ada", "bob"]
    with pytest.raises(NotFound) as refused:
        await world.agents.read("n")
    assert refused.value.code == "block_not_found"


async def test_the_same_block_again_changes_nothing_and_another_reason_does(world: World) -> None:
    await world.block()
    await world.clock.advance(5)
    assert (await world.block()).generation == 1
    assert len(world.published) == 1
    assert (await world.block(reason="worse")).generation == 2
    assert [event.reason for event in world.published] == ["poison", "worse"]


async def test_what_is_not_blocked_cannot_be_unblocked(world: World) -> None:
    for _ in range(2):
        with pytest.raises(NotFound):
            await world.unblock()
        await world.block()
        await world.unblock()


async def test_a_trial_changes_nothing(world: World) -> None:
    assert (await world.block(dry_run=True)).generation == 1
    assert (world.published, world.blocks.changes) == ([], {})


async def test_a_precondition_is_asked_with_the_present_block_before_anything_is_written(world: World) -> None:
    first = await world.block()
    asked: list[AgentBlock | None] = []

    def refuse(present: AgentBlock | None) -> None:
        asked.append(present)
        raise Conflict("changed")

    with pytest.raises(Conflict):
        await world.agents.block("n", "other", "ada", precondition=refuse)
    with pytest.raises(Conflict):
        await world.agents.unblock("n", "ada", precondition=refuse)
    assert asked == [first, first]
    assert len(world.published) == 1


async def test_blocks_in_force_are_published_again_by_the_owner_of_their_partition(world: World) -> None:
    for node in ("a", "b", "c"):
        await world.block(node)
    await world.unblock("c")
    world.database.published.clear()
    mine = {partition_of("a")}
    await AnnounceBlocks(world.database, world.blocks.books(), lambda: mine, unstored())()
    assert [event.node for event in world.published] == [n for n in ("a", "b") if partition_of(n) in mine]
    world.database.published.clear()
    await AnnounceBlocks(world.database, world.blocks.books(), lambda: (), unstored())()
    assert world.published == []


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501, "a\x00b", "a\ud800b", "\x1b[31mred"])
def test_a_reason_that_cannot_be_shown_in_one_line_is_refused(reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_reason(reason)
    assert refused.value.field == "reason"


@given(st.text(max_size=600))
def test_whatever_reason_is_accepted_fits_the_event(reason: str) -> None:
    try:
        block = blocked("n", None, reason, "ada", EPOCH)
    except InvalidInput:
        return
    data = AgentBlockChanged(node="n", blocked=True, reason=block.reason, changed_by="ada", since=EPOCH)
    assert AgentBlockChanged.model_validate_json(data.model_dump_json()) == data
    assert "\n" not in block.reason


def test_the_event_holds_the_longest_reason() -> None:
    assert LONGEST_REASON == REASON_CHARACTERS
