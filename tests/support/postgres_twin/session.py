"""The server's side of connections: sessions, their statements, and the schemas that they work in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.support.postgres_twin.catalog import Catalog
from tests.support.postgres_twin.definitions import empty_tables
from tests.support.postgres_twin.plan import CompiledStatement, StatementResult
from tests.support.postgres_twin.rows import StoredTable, Values
from tests.support.postgres_twin.scopes import Execution
from tests.support.postgres_twin.transactions import Transaction

Deliver = Callable[[Callable[[], None]], None]


@dataclass(slots=True)
class ServiceSchema:
    """One service's tables on the server."""

    catalog: Catalog
    tables: dict[str, StoredTable]


@dataclass(frozen=True, slots=True)
class Contents:
    """The catalog and the rows with which a schema begins: what its migrations leave."""

    catalog: Catalog
    rows: Mapping[str, Iterable[Values]] = field(default_factory=dict)

    def schema(self) -> ServiceSchema:
        tables = empty_tables(self.catalog)
        for name, rows in self.rows.items():
            for values in rows:
                row = tables[name].new_row()
                row.values = values
                for index in tables[name].indexes:
                    index.add(index.key_of(values), row)
        return ServiceSchema(self.catalog, tables)


class Session:
    """The server's side of one connection."""

    def __init__(
        self, server: Any, pid: int, service: str, schema: ServiceSchema, process: str, settings: Mapping[str, float]
    ) -> None:
        self.server = server
        self.pid = pid
        self.service = service
        self.process = process
        self.schema = schema
        self.idle_seconds = settings.get("idle", 0.0)
        """Limit of an open transaction without a statement; 0 for none."""
        self.statement_seconds = settings.get("statement", 0.0)
        self.transaction: Transaction | None = None
        self.running: Running | None = None
        self.keys: set[int] = set()
        self.channels: dict[str, Callable[[str, str, int], None]] = {}
        self.deliver: Deliver = lambda receive: receive()
        self.ended: Callable[[], None] = lambda: None
        self.is_open = True
        self.used_at = server.clock.now()

    @property
    def tables(self) -> dict[str, StoredTable]:
        return self.schema.tables

    @property
    def catalog(self) -> Catalog:
        return self.schema.catalog

    def changed_catalog(self) -> Catalog:
        """Returns a catalog of this server's own, which a definition may change."""
        self.schema.catalog = self.schema.catalog.changed()
        return self.schema.catalog


class Running:
    """One statement: done, or waiting for a lock."""

    __slots__ = ("blockers", "error", "execution", "future", "parameters", "plan", "result", "session", "since")

    def __init__(self, session: Session, plan: CompiledStatement, parameters: Any, execution: Execution) -> None:
        self.session = session
        self.plan = plan
        self.parameters = parameters
        self.execution = execution
        self.result: StatementResult | None = None
        self.error: BaseException | None = None
        self.future: asyncio.Future[None] | None = None
        """Done when the statement is; None if it did not wait."""
        self.blockers: list[Transaction] = []
        self.since: datetime | None = None

    def is_done(self) -> bool:
        return self.result is not None or self.error is not None

    def outcome(self) -> StatementResult:
        """Returns the result, or raises the statement's error."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result
