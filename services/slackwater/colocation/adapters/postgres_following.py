"""Queries which nodes follow which documents, from the states of the nodes in colocation's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import text

from slackwater.colocation.adapters.node_rows import KeyedFollowerStore
from slackwater.colocation.adapters.states import readable_facts
from slackwater.colocation.ports import Followers
from slackwater.offers.node import NodeState

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


class PostgresFollowerStore(KeyedFollowerStore):
    """Implements slackwater.colocation.ports.FollowerStore."""

    async def followers(self, most: int) -> Mapping[str, Followers]:
        async with self._database.unit_of_work() as unit:
            counts = list(await unit.connection.execute(_COUNTS))
            bad = list(await unit.connection.execute(_PROBLEMS, {"most": most}))
        return {
            row.title: Followers(
                row.nodes, row.bad, tuple((node.node, node.strategy_problem) for node in bad if node.title == row.title)
            )
            for row in counts
        }

    async def following(self, after: str, limit: int) -> Sequence[NodeState]:
        """Reads pages until one has a readable state, because an empty page means the end."""
        async with self._database.unit_of_work() as unit:
            while True:
                rows = (await unit.connection.execute(_FOLLOWING, {"after": after, "limit": limit})).all()
                states = list(readable_facts(rows, self._quarantine))
                if states or len(rows) < limit:
                    return states
                after = rows[-1].node
