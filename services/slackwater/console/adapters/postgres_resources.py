"""Documents of resource kinds, in PostgreSQL: the last generations of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.console.adapters.queries import Queries
from slackwater.console.domain.resources import KEPT_GENERATIONS, ResourceView

_RESOURCE = TypeAdapter(ResourceView)
_SAVE = text("""
    INSERT INTO resource_generation (kind, name, generation, changed_at, deleted, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(kind text, name text, generation bigint, changed_at timestamptz, deleted boolean, body jsonb)
    ON CONFLICT (kind, name, generation) DO UPDATE
    SET changed_at = excluded.changed_at, deleted = excluded.deleted, body = excluded.body
""")
_PRUNE = text(f"""
    DELETE FROM resource_generation AS old
    USING jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(kind text, name text),
    LATERAL (SELECT generation FROM resource_generation AS kept WHERE kept.kind = r.kind AND kept.name = r.name
        ORDER BY generation DESC OFFSET {KEPT_GENERATIONS - 1} LIMIT 1) AS last
    WHERE old.kind = r.kind AND old.name = r.name AND old.generation < last.generation
""")  # noqa: S608 - constants
_NEWEST = """SELECT DISTINCT ON (kind COLLATE "C", name COLLATE "C") kind, name, deleted, body
    FROM resource_generation ORDER BY kind COLLATE "C", name COLLATE "C", generation DESC"""
_COUNTS = text(f"SELECT kind, count(*) FROM ({_NEWEST}) AS newest WHERE NOT deleted GROUP BY kind")  # noqa: S608
_OF_KIND = text(f"""SELECT CAST(body AS text) FROM ({_NEWEST}) AS newest WHERE kind = :kind AND NOT deleted
    ORDER BY name COLLATE "C" """)  # noqa: S608 - constants
_GENERATIONS = text("""
    SELECT CAST(body AS text) FROM resource_generation WHERE kind = :kind AND name = :name ORDER BY generation DESC
""")


class PostgresResources(Queries):
    """Implements slackwater.console.ports.ResourceReads and the related write."""

    async def save_resources(self, rows: Sequence[ResourceView]) -> None:
        bodies = [_RESOURCE.dump_python(row, mode="json") for row in rows]
        keys = ("kind", "name", "generation", "changed_at", "deleted")
        written = {(row["kind"], row["name"], row["generation"]): row for row in bodies}
        saved = [{**{key: row[key] for key in keys}, "body": row} for row in written.values()]
        documents = {(row["kind"], row["name"]): {"kind": row["kind"], "name": row["name"]} for row in saved}
        await self._write((_SAVE, saved), (_PRUNE, [*documents.values()]))

    async def resource_counts(self) -> Mapping[str, int]:
        return {row[0]: row[1] for row in await self._rows(_COUNTS)}

    async def resources(self, kind: str) -> Sequence[ResourceView]:
        return await self._all(_RESOURCE, _OF_KIND, kind=kind)

    async def resource_generations(self, kind: str, name: str) -> Sequence[ResourceView]:
        return await self._all(_RESOURCE, _GENERATIONS, kind=kind, name=name)
