"""COPY inside a unit of work: thousands of rows at the cost of one statement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_CHUNK_BYTES = 512 * 1024


async def copy_rows(
    connection: AsyncConnection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> None:
    """Append rows to a table of the service's schema, in the order of `columns`, within the
    transaction.
    """
    driver = await _in_transaction(connection)
    await driver.copy_records_to_table(table, records=list(rows), columns=list(columns))


async def copy_binary(connection: AsyncConnection, table: str, columns: Sequence[str], body: bytes) -> None:
    """As `copy_rows`, for rows already in PostgreSQL's binary COPY format, signature and trailer
    included.
    """
    driver = await _in_transaction(connection)
    await driver.copy_to_table(table, source=_chunks(body), columns=list(columns), format="binary")


async def _in_transaction(connection: AsyncConnection) -> Any:
    """Returns the driver's connection with the transaction open. SQLAlchemy begins it at the first
    statement; an earlier COPY would run outside it.
    """
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None  # noqa: S101 - the connection is open
    if not driver.is_in_transaction():
        await connection.execute(text("SELECT 1"))
    return driver


async def _chunks(body: bytes) -> AsyncIterator[memoryview]:
    view = memoryview(body)
    for start in range(0, len(body), _CHUNK_BYTES):
        yield view[start : start + _CHUNK_BYTES]
