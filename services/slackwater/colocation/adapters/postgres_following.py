"""Who follows which documents, in colocation's schema: read off the states of the nodes, which hold it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import TextClause, text

from slackwater.colocation.adapters.states import readable_facts, readable_states
from slackwater.colocation.domain.node import NodeState
from slackwater.colocation.ports import Followers
from slackwater.events.envelope import Event
from slackwater.resources.catalog import COLOCATION_STRATEGY
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored
from slackwater.store.resource_table import PostgresResourceStore

Read = Callable[[Iterable[Any], Quarantine], Iterator[NodeState]]

_STRATEGIES = "CASE WHEN jsonb_typeof(strategies) = 'array' THEN strategies ELSE '[]' END"
_COUNTS = text(f"""
SELECT split_part(source, '@', 1) AS title, count(*) AS nodes, count(*) FILTER (WHERE strategy_problem <> '') AS bad
FROM nodes, jsonb_array_elements_text({_STRATEGIES}) AS source GROUP BY title
""")  # noqa: S608 - constants
_PROBLEMS = text(f"""
SELECT title, node, strategy_problem FROM (
    SELECT split_part(source, '@', 1) AS title, node, strategy_problem,
        row_number() OVER (PARTITION BY split_part(source, '@', 1) ORDER BY node) AS place
    FROM nodes, jsonb_array_elements_text({_STRATEGIES}) AS source WHERE strategy_problem <> ''
) found WHERE place <= :most ORDER BY title, place
""")  # noqa: S608 - constants
_FOLLOWING = text("""
SELECT node, CAST(jsonb_build_object(
    'node', node, 'pool', pool, 'words', words, 'good_words', good_words, 'strategies', coalesce(strategies, '[]'),
    'strategy_problem', coalesce(strategy_problem, '')) AS text) AS facts
FROM (
    SELECT node, strategies, strategy_problem, parts.*
    FROM nodes, jsonb_to_record(CASE WHEN jsonb_typeof(facts) = 'object' THEN facts ELSE '{}' END)
        AS parts(pool text, words jsonb, good_words jsonb, described_by jsonb)
    WHERE node > :after ORDER BY node
) known WHERE described_by IS NOT NULL AND described_by <> 'null' LIMIT :limit
""")
_PAGE = text(
    "SELECT node, CAST(facts AS text) AS facts, held FROM nodes WHERE node > :after ORDER BY node LIMIT :limit"
)
_TOLD = text("SELECT name, problem FROM strategy_findings WHERE problem <> ''")
_TELL = text(
    "INSERT INTO strategy_findings (name, problem) VALUES (:name, :problem)"
    " ON CONFLICT (name) DO UPDATE SET problem = excluded.problem, told_at = now()"
)


def strategy_store(database: Database) -> PostgresResourceStore:
    """Where the ColocationStrategy documents are."""
    return PostgresResourceStore(database, COLOCATION_STRATEGY)


class _Telling:
    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit

    async def told(self) -> Mapping[str, str]:
        return {row.name: row.problem for row in await self._unit.connection.execute(_TOLD)}

    async def tell(self, name: str, problem: str, event: Event[Any]) -> None:
        await self._unit.connection.execute(_TELL, {"name": name, "problem": problem})
        await self._unit.publish(event)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)


class PostgresFollowerStore:
    """slackwater.colocation.ports.FollowerStore."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    async def followers(self, most: int) -> Mapping[str, Followers]:
        async with self._database.unit_of_work() as unit:
            counts = list(await unit.connection.execute(_COUNTS))
            bad = list(await unit.connection.execute(_PROBLEMS, {"most": most}))
        return {
            row.title: Followers(
                row.nodes, row.bad, tuple((one.node, one.strategy_problem) for one in bad if one.title == row.title)
            )
            for row in counts
        }

    async def following(self, after: str, limit: int) -> Sequence[NodeState]:
        return await self._pages(_FOLLOWING, after, limit, readable_facts)

    async def page(self, after: str, limit: int) -> Sequence[NodeState]:
        return await self._pages(_PAGE, after, limit, readable_states)

    async def _pages(self, statement: TextClause, after: str, limit: int, read: Read) -> Sequence[NodeState]:
        """Until something of a page can be read: an empty one is the end."""
        async with self._database.unit_of_work() as unit:
            while True:
                rows = (await unit.connection.execute(statement, {"after": after, "limit": limit})).all()
                states = list(read(rows, self._quarantine))
                if states or len(rows) < limit:
                    return states
                after = rows[-1].node

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[_Telling]:
        async with self._database.unit_of_work() as unit:
            yield _Telling(unit)
