"""COPY inside a unit of work: thousands of rows for the price of one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection


async def copy_rows(
    connection: AsyncConnection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Append rows to a table of the service's schema, in the order of `columns`, as part of the transaction."""
    await connection.execute(text("SELECT 1"))  # SQLAlchemy begins lazily: without this the COPY would stand alone
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None  # noqa: S101 - the connection is open: it has just answered
    await driver.copy_records_to_table(table, records=list(rows), columns=list(columns))
