"""The system tables that our statements read: partitions of tables, and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.postgres_twin.scopes import Execution

Rows = Callable[["Execution"], Iterator[tuple[Any, ...]]]


def _partitions(execution: Execution) -> Iterator[tuple[str, str]]:
    for name, table in execution.tables.items():
        for part, partition in table.partitions.items():
            is_mine = partition.maker is execution.transaction
            if is_mine is not partition.is_dropped if partition.maker is not None else True:
                yield part, name


def _classes(execution: Execution) -> Iterator[tuple[str, str, str, None]]:
    schema = execution.session.service
    for name in execution.tables:
        yield name, name, schema, None
    for part, _ in _partitions(execution):
        yield part, part, schema, None


def _sessions(execution: Execution) -> Iterator[tuple[Any, ...]]:
    """A statement waits for a lock here or is done: none stands still because of its client."""
    for session in list(execution.server.sessions.values()):
        waits = session.running is not None
        state = "active" if waits else "idle" if session.transaction is None else "idle in transaction"
        kind, event = ("Lock", "transactionid") if waits else ("Client", "ClientRead")
        yield session.pid, session.service, "slackwater", state, kind, event, session.used_at


SYSTEM_TABLES: Mapping[str, tuple[Sequence[str], Rows]] = {
    "pg_inherits": (("inhrelid", "inhparent"), _partitions),
    "pg_class": (("oid", "relname", "relnamespace", "relpartbound"), _classes),
    "pg_stat_activity": (
        ("pid", "usename", "datname", "state", "wait_event_type", "wait_event", "query_start"),
        _sessions,
    ),
}
