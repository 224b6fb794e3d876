"""Blocks of agents in PostgreSQL. Every change is kept; the last change of a node is in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import RowMapping, text

from slackwater.ingestion.domain.blocks import AgentBlock
from slackwater.store.names import readable_time
from slackwater.store.port import UnitOfWork

_COLUMNS = f"node, generation, blocked, reason, changed_by, {readable_time('changed_at')} AS since"
"""`readable_time` replaces a time that no event can hold, so that such a row does not hide the other blocks."""
_LOCK = text("LOCK TABLE agent_blocks IN SHARE ROW EXCLUSIVE MODE")
_LAST = text(
    f"SELECT {_COLUMNS} FROM agent_blocks WHERE node = :node ORDER BY generation DESC LIMIT 1"  # noqa: S608 - constants
)
_IN_FORCE = text(
    f"SELECT * FROM (SELECT DISTINCT ON (node) {_COLUMNS} FROM agent_blocks"  # noqa: S608 - constants
    " ORDER BY node, generation DESC) newest WHERE blocked ORDER BY node"
)
_APPEND = text("""
INSERT INTO agent_blocks (node, generation, blocked, reason, changed_by, changed_at)
VALUES (:node, :generation, :blocked, :reason, :changed_by, :since)
""")


class PostgresBlockBook:
    """slackwater.ingestion.ports.BlockBook on the connection of a unit of work."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._connection = unit.connection

    async def lock(self) -> None:
        await self._connection.execute(_LOCK)

    async def last(self, node: str) -> AgentBlock | None:
        row = (await self._connection.execute(_LAST, {"node": node})).mappings().first()
        return None if row is None else _block(row)

    async def in_force(self) -> Sequence[AgentBlock]:
        return [_block(row) for row in (await self._connection.execute(_IN_FORCE)).mappings()]

    async def append(self, block: AgentBlock) -> None:
        await self._connection.execute(_APPEND, asdict(block))


def _block(row: RowMapping) -> AgentBlock:
    return AgentBlock(**row)
