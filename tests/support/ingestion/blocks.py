"""Blocks of agents in memory, with the same guarantees as on PostgreSQL, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.store import MemoryUnitOfWork

from slackwater.ingestion.domain.blocks import AgentBlock
from slackwater.ingestion.ports import BlockBooks
from slackwater.store.port import UnitOfWork


class MemoryBlocks:
    """Holds every change, by node."""

    def __init__(self) -> None:
        self.changes: dict[str, list[AgentBlock]] = {}

    def books(self) -> BlockBooks:
        return lambda unit: MemoryBlockBook(unit, self)


class MemoryBlockBook:
    """Implements slackwater.ingestion.ports.BlockBook. Units of work in memory run one at a time."""

    def __init__(self, unit: UnitOfWork, blocks: MemoryBlocks) -> None:
        assert isinstance(unit, MemoryUnitOfWork)
        self._unit = unit
        self._blocks = blocks

    async def lock(self) -> None:
        """No-op: units of work in memory do not run concurrently."""

    async def last(self, node: str) -> AgentBlock | None:
        return self._blocks.changes.get(node, [None])[-1]

    async def in_force(self) -> Sequence[AgentBlock]:
        newest = [changes[-1] for _, changes in sorted(self._blocks.changes.items())]
        return [block for block in newest if block.blocked]

    async def append(self, block: AgentBlock) -> None:
        self._unit.on_commit(lambda: self._blocks.changes.setdefault(block.node, []).append(block))
