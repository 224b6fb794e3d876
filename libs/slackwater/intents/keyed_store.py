"""States of a writer's nodes as keyed rows, in PostgreSQL or in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Generic

from pydantic import TypeAdapter

from slackwater.events.envelope import Event
from slackwater.intents.ports import S
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

DOCUMENT: Final = RowColumn("document", "jsonb")
GENERATION: Final = RowColumn("generation", "bigint")


def state_table(name: str, state: type[S]) -> KeyedTable[S]:
    """A table with one row per node: the key `node`, `version`, `generation` and the state as `document`. `state` is a
    dataclass with the first three."""
    adapter: TypeAdapter[Any] = TypeAdapter(state)

    def decode(row: Any) -> S:
        state: Any = adapter.validate_python(row.document)
        if (state.node, state.version, state.generation) != (row.node, row.version, row.generation):
            raise ValueError(
                f"the row is {row.node} {row.version} of generation {row.generation},"
                f" its document {state.node} {state.version} of generation {state.generation}"
            )
        read: S = state
        return read

    return KeyedTable(
        name=name,
        key="node",
        kind="node",
        version="version",
        columns=(DOCUMENT, GENERATION),
        key_of=lambda value: value.node,
        version_of=lambda value: value.version,
        encode=lambda value: (adapter.dump_json(value).decode(), value.generation),
        decode=decode,
    )


class KeyedIntentUnit(Generic[S]):
    """slackwater.intents.ports.IntentUnit."""

    def __init__(self, unit: UnitOfWork, table: KeyedTable[S], quarantine: Quarantine) -> None:
        self._unit = unit
        self._states = unit.keyed(table, quarantine)

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def nodes(self, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[S]:
        return list((await self._states.read_all(partitions)).values())

    async def generation(self, node: str) -> int:
        return int(await self._states.column(node, GENERATION.name) or 0)

    async def save(self, state: S, /, *, last: bool = False) -> S:
        stored: Any = state
        written: S = replace(stored, version=state.version + 1)
        await self._states.replace(written, state.version, last=last)
        return written

    async def remove(self, node: str, /) -> None:
        await self._states.remove([node])


class KeyedIntentStore(Generic[S]):
    """slackwater.intents.ports.IntentStore."""

    def __init__(self, database: Database, table: KeyedTable[S], quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._table = table
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[KeyedIntentUnit[S]]:
        async with self._database.unit_of_work() as unit:
            yield KeyedIntentUnit(unit, self._table, self._quarantine)
