"""History that was written a pod a row is the same history in one row a report, and back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from slackwater.ingestion.adapters.postgres import PostgresUsageLedger
from slackwater.ingestion.domain.columns import columns_of
from slackwater.ingestion.domain.reports import HistoryRow
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema
from slackwater.testing.clock import EPOCH
from slackwater.testing.postgres_server import FreshDatabase
from slackwater.testing.reports import pod_usage, report

if TYPE_CHECKING:
    from sqlalchemy import Connection

ONE_BY_ONE = text("SELECT * FROM pod_usage ORDER BY node, midpoint_at, uid")
TABLES = text("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r'")


def step(connection: Connection, name: str) -> None:
    """Carry out `upgrade` or `downgrade` of the version that gathers the pods."""
    versions = Schema.of("ingestion").versions
    script = ScriptDirectory(str(versions.parent), version_locations=[str(versions)])
    with Operations.context(MigrationContext.configure(connection)):
        getattr(script.get_revision("0004").module, name)()


async def test_pods_are_gathered_and_scattered_without_loss(fresh_database: FreshDatabase) -> None:
    clock = SystemClock()
    database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", clock)
    rows = [
        HistoryRow(report_from(report(node, sequence, EPOCH + timedelta(hours=9 * sequence), pods=pods)), EPOCH)
        for node, sequence, pods in (
            ("a", 1, [pod_usage("one"), pod_usage("two", Tier.BATCH, 7)]),
            ("a", 2, [pod_usage("one")]),
            ("b", 3, [pod_usage("x"), pod_usage("y"), pod_usage("z")]),
            ("b", 4, []),
        )
    ]
    ledgers = PostgresUsageLedger.remembering()
    async with database.unit_of_work() as unit:
        ledger = ledgers(unit)
        await ledger.keep_days(sorted({row.report.midpoint_at.date() for row in rows}))
        await ledger.append(columns_of(rows))
    async with database.unit_of_work() as unit:
        before = (await unit.connection.execute(ONE_BY_ONE)).all()
        tables = set((await unit.connection.execute(TABLES)).scalars())
        await unit.connection.run_sync(step, "downgrade")
        scattered = (await unit.connection.execute(ONE_BY_ONE)).all()
        assert "report_pods" not in set((await unit.connection.execute(TABLES)).scalars())
        await unit.connection.run_sync(step, "upgrade")
        gathered = (await unit.connection.execute(ONE_BY_ONE)).all()
        assert set((await unit.connection.execute(TABLES)).scalars()) == tables
    await database.close()
    assert len(before) == 6
    assert before[0].throttled_ratio is None
    assert scattered == before
    assert gathered == before
