"""One transaction: state, outbox and inbox together."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from slackwater.events.envelope import Event
from slackwater.store import inbox
from slackwater.store.encoding import headers_of, type_of
from slackwater.store.names import outbox_channel

_INSERT = text(
    "INSERT INTO outbox (id, type, subject, headers, payload)"
    " SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:types AS text[]), CAST(:subjects AS text[]),"
    " CAST(:headers AS text[]), CAST(:payloads AS text[]))"
)
_NOTIFY = text("SELECT pg_notify(:channel, '')")


class PostgresUnitOfWork:
    """slackwater.store.port.UnitOfWork; made by PostgresDatabase.unit_of_work, which commits it."""

    def __init__(self, connection: AsyncConnection, service: str) -> None:
        self._connection = connection
        self._service = service
        self._events: list[Event[Any]] = []

    @property
    def connection(self) -> AsyncConnection:
        return self._connection

    async def publish(self, event: Event[Any]) -> None:
        """Kept until the commit: positions taken last follow the order of the row locks, one INSERT serves all."""
        self._events.append(event)

    async def first_time(self, consumer: str, event_id: str) -> bool:
        return await inbox.first_time(self._connection, consumer, event_id)

    async def flush(self) -> None:
        """Write the outbox rows and the notification that the commit sends."""
        if not self._events:
            return
        events, self._events = self._events, []
        await self._connection.execute(
            _INSERT,
            {
                "ids": [event.id for event in events],
                "types": [type_of(event) for event in events],
                "subjects": [event.subject for event in events],
                "headers": [headers_of(event) for event in events],
                "payloads": [event.data.model_dump_json() for event in events],
            },
        )
        await self._connection.execute(_NOTIFY, {"channel": outbox_channel(self._service)})
