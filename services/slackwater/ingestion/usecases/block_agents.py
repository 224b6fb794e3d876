"""Blocks and unblocks agents of nodes on an operator's request; every service follows the event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Event, event_of
from slackwater.ingestion.domain.blocks import AgentBlock, blocked, unblocked
from slackwater.ingestion.ports import BlockBooks, Ledgers
from slackwater.ingestion.usecases.accept_reports import SOURCE
from slackwater.model.errors import NotFound
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine

BLOCKS = "agent_blocks"
Precondition = Callable[[AgentBlock | None], None]
"""Raises Conflict if the present block is not the one that the operator read."""


@dataclass(frozen=True, slots=True)
class BlockChange:
    """A change as it was made, or as it would be in a dry run. `is_node_known`: the node was described or has
    reported.
    """

    block: AgentBlock
    is_node_known: bool
    is_changed: bool


class BlockAgents:
    """Reads and changes blocks. The database is not fenced, so any replica accepts a change for any node."""

    def __init__(self, database: Database, books: BlockBooks, ledgers: Ledgers, clock: Clock) -> None:
        self._database = database
        self._books = books
        self._ledgers = ledgers
        self._clock = clock

    async def in_force(self) -> Sequence[AgentBlock]:
        """Returns the blocks in force, by node. Raises Unavailable."""
        async with self._database.unit_of_work() as unit:
            return await self._books(unit).in_force()

    async def read(self, node: str) -> AgentBlock:
        """Returns the block in force of a node. Raises NotFound, Unavailable."""
        async with self._database.unit_of_work() as unit:
            return _in_force(node, await self._books(unit).last(node))

    async def block(
        self, node: str, reason: str, by: str, *, precondition: Precondition, dry_run: bool = False
    ) -> BlockChange:
        """Blocks the agent of a node, known or not. An identical block changes nothing.

        Raises InvalidInput for a reason that is not allowed, the precondition's errors, and Unavailable.
        """

        def change(present: AgentBlock | None) -> AgentBlock:
            precondition(present)
            return blocked(node, present, reason, by, self._clock.now())

        return await self._change(node, change, dry_run=dry_run)

    async def unblock(self, node: str, by: str, *, precondition: Precondition, dry_run: bool = False) -> BlockChange:
        """Ends the block of a node. Raises NotFound if none is in force, the precondition's errors, Unavailable."""

        def change(present: AgentBlock | None) -> AgentBlock:
            precondition(present)
            return unblocked(_in_force(node, present), by, self._clock.now())

        return await self._change(node, change, dry_run=dry_run)

    async def _change(
        self, node: str, change: Callable[[AgentBlock | None], AgentBlock], *, dry_run: bool
    ) -> BlockChange:
        async with self._database.unit_of_work() as unit:
            book = self._books(unit)
            await book.lock()
            present = await book.last(node)
            block = change(present)
            is_known = node in await self._ledgers(unit).nodes([node])
            is_changed = block != present
            if is_changed and not dry_run:
                await book.append(block)
                await unit.publish(changed(block))
        return BlockChange(block, is_known, is_changed)


class AnnounceBlocks:
    """Publishes the blocks in force again, so that a broker that lost its store gets them."""

    def __init__(
        self, database: Database, books: BlockBooks, working: Callable[[], Collection[int]], quarantine: Quarantine
    ) -> None:
        self._database = database
        self._books = books
        self._working = working
        self._quarantine = quarantine

    async def __call__(self) -> None:
        """Publishes the blocks of the partitions that this replica owns.

        A block that no event can hold is set aside, and stays in force where it is known. Raises Unavailable, Fenced.
        """
        working = self._working()
        if not working:
            return
        async with self._database.unit_of_work() as unit:
            book = self._books(unit)
            await book.lock()  # a block that ends meanwhile must not be published after its end
            for block in await book.in_force():
                if partition_of(block.node) not in working:
                    continue
                event = self._quarantine.attempt(BLOCKS, block.node, partial(changed, block))
                if event is not None:
                    await unit.publish(event)


def changed(block: AgentBlock) -> Event[AgentBlockChanged]:
    """Builds the event that publishes a block."""
    data = AgentBlockChanged(
        node=block.node,
        blocked=block.blocked,
        reason=block.reason,
        changed_by=block.changed_by,
        since=block.since,
    )
    return event_of(data, source=SOURCE, time=block.since)


def _in_force(node: str, present: AgentBlock | None) -> AgentBlock:
    if present is None or not present.blocked:
        raise NotFound(
            f"the agent of node {node!r} is not blocked; GET /v1/blocks lists those that are", code="block_not_found"
        )
    return present
