"""Evictions in the schema `kubernetes`: one row per node, whose `version` keeps writers apart."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.events.envelope import Event
from slackwater.kubernetes.ports import StoredEvictions
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database
from slackwater.store.quarantine import Quarantine

_STORED: Final = TypeAdapter(StoredEvictions)


def _decoded(row: Any) -> StoredEvictions:
    """Raises one of UNREADABLE for what is not the state of this very node and version."""
    stored = _STORED.validate_python(row.document)
    if (stored.node, stored.version) != (row.node, row.version):
        raise ValueError(f"the row is {row.node} {row.version}, its document {stored.node} {stored.version}")
    return stored


EVICTIONS: Final = KeyedTable[StoredEvictions](
    name="node_evictions",
    key="node",
    kind="evictions of a node",
    version="version",
    columns=(RowColumn("document", "jsonb"),),
    key_of=lambda stored: stored.node,
    version_of=lambda stored: stored.version,
    encode=lambda stored: (_STORED.dump_json(stored).decode(),),
    decode=_decoded,
    touched="changed_at",
)


class KeyedEvictionStore:
    """slackwater.kubernetes.ports.EvictionStore."""

    def __init__(self, database: Database, quarantine: Quarantine) -> None:
        self._database = database
        self._quarantine = quarantine

    async def load(self, partitions: Collection[int]) -> Sequence[StoredEvictions]:
        async with self._database.unit_of_work() as unit:
            return list((await unit.keyed(EVICTIONS, self._quarantine).read_all(partitions)).values())

    async def save(self, rows: Sequence[StoredEvictions], events: Sequence[Event[Any]]) -> Sequence[StoredEvictions]:
        written = [replace(row, version=row.version + 1) for row in rows]
        async with self._database.unit_of_work() as unit:
            keyed = unit.keyed(EVICTIONS, self._quarantine)
            for row in written:
                await keyed.replace(row, row.version - 1)
            for event in events:
                await unit.publish(event)
        return written
