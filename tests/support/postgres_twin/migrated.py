"""Runs a service's real migrations on the twin, once for each process."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from types import ModuleType
from typing import Any

from tests.support.clock import FakeClock
from tests.support.postgres_twin.catalog import Catalog
from tests.support.postgres_twin.results import TwinResult
from tests.support.postgres_twin.server import Server
from tests.support.postgres_twin.session import Contents, ServiceSchema, Session

from slackwater.store.migrations import Schema as Migrations
from slackwater.store.tables import create_service_tables

_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


class _Operations:
    """The part of `alembic.op` that migrations use."""

    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self._session = session

    def execute(self, sqltext: Any, values: Any = None) -> TwinResult:
        sql = sqltext if isinstance(sqltext, str) else sqltext.text
        running = self._server.execute(self._session, sql, values, begins=False)
        return TwinResult(running.outcome())

    def get_bind(self) -> _Operations:
        return self


@cache
def migrated(migrations: Migrations) -> Contents:
    """Returns the schema that the migrations leave; all servers share its catalog and its plans."""

    def upgrade(operations: _Operations) -> None:
        for path in sorted(migrations.versions.glob("[0-9]*_*.py")):
            module = _module(path.stem, str(path))
            module.op = operations  # type: ignore[attr-defined] # alembic's proxy has no connection here
            module.upgrade()

    return _left_by(migrations.service, upgrade)


@cache
def service_tables(service: str) -> Contents:
    """Returns a schema with the tables that every service has, and none of its own."""
    return _left_by(service, create_service_tables)


def _left_by(service: str, upgrade: Callable[[Any], None]) -> Contents:
    server = Server(FakeClock(_LONG_AGO))
    server.schemas[service] = ServiceSchema(Catalog(), {})
    upgrade(_Operations(server, server.connect(service, "", {})))
    schema = server.schemas[service]
    rows = {name: list(table.committed()) for name, table in schema.tables.items()}
    return Contents(schema.catalog, rows)


def _module(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"slackwater_migration_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
