"""The servers of the world, and what the record says of them: every stored message and every commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.jetstream.broker import JetStreamBroker
from tests.support.jetstream.consumer import nanoseconds
from tests.support.jetstream.stream import MemoryStream
from tests.support.postgres_twin.migrated import migrated, service_tables
from tests.support.postgres_twin.rows import Values
from tests.support.postgres_twin.server import Server
from tests.support.postgres_twin.session import ServiceSchema
from tests.support.postgres_twin.transactions import Transaction
from tests.world.plan import CONSOLE, OUTBOXES
from tests.world.trace import Kind

from slackwater.bus.codec.cloudevents import Message
from slackwater.model.time import Clock
from slackwater.store.migrations import Schema

Record = Callable[..., None]
Written = dict[tuple[str, int], tuple[Values | None, Values | None]]
"""Values before and after, by table and number of the row."""
DEAD_LETTERS = "DLQ"
API_SUBJECTS = "$JS."
REPORTS_CONSUMER = "ingestion-usage-reported-p"
QUIET_TABLES = frozenset({"members"})
"""Heartbeats: their commits are not steps of the record."""


class WorldBroker(JetStreamBroker):
    """Records what it stores and broadcasts."""

    def __init__(self, clock: Clock, record: Record) -> None:
        self._record = record
        super().__init__(clock=clock)

    def stored(self, stream: MemoryStream, sequence: int, message: Message) -> None:
        headers = message.headers
        if stream.name == DEAD_LETTERS:
            names = ("consumer", "reason", "detail")
            why = {name: headers.get(f"sw-{name}", "") for name in names}
            self._record(Kind.BURIED, headers.get("sw-subject", ""), detail=why, value=message, content=message.body)
        else:
            detail = {"stream": stream.name, "sequence": sequence, "id": headers.get("ce-id", "")}
            cause = headers.get("ce-causedby", "")
            subject, body = message.subject, message.body
            self._record(Kind.STORED, subject, cause=cause, detail=detail, value=message, content=body)
        super().stored(stream, sequence, message)

    def _acknowledge(self, subject: str, body: bytes) -> None:
        """Record the acknowledgements of reports, before they take effect. The server acknowledges by number alone:
        after a loss of the stream, one that was sent for an older message meets another one under its number, and says
        nothing about it. The time in its subject is that at which its own message was stored."""
        tokens = subject.split(".")
        if tokens[3].startswith(REPORTS_CONSUMER) and body.startswith(b"+ACK"):
            stream, sequence = self.jetstreams.get(tokens[2]), int(tokens[5])
            stored = None if stream is None else stream.messages.get(sequence)
            consumer = self._js_consumers.get(tokens[2], {}).get(tokens[3])
            if (
                stored is not None
                and tokens[7] == str(nanoseconds(stored))
                and consumer is not None
                and sequence in consumer.unacknowledged
            ):
                detail = {"stream": tokens[2], "sequence": sequence}
                self._record(Kind.ACKNOWLEDGED, stored.message.subject, detail=detail, value=stored.message)
        super()._acknowledge(subject, body)

    def busy_consumers(self) -> list[str]:
        """The names of the durable consumers that have been sent something, sorted."""
        own = (consumers for consumers in self._js_consumers.values())
        durable = (c for consumers in own for c in consumers.values() if not c.is_ephemeral)
        return sorted(consumer.name for consumer in durable if consumer.delivered_consumer)

    def waiting(self) -> dict[str, int]:
        """Messages that each durable consumer has not delivered or not seen acknowledged."""
        own = (consumers for consumers in self._js_consumers.values())
        infos = [c.info() for consumers in own for c in consumers.values() if not c.is_ephemeral]
        return {info["name"]: info["num_pending"] + info["num_ack_pending"] for info in infos}

    def relay(self, message: Message) -> int:
        if message.subject.startswith(API_SUBJECTS):  # requests to a stream that is away: they fill a timeline
            return super().relay(message)
        self._record(Kind.BROADCAST, message.subject, value=message, content=message.body)
        return super().relay(message)


class WorldPostgres(Server):
    """One PostgreSQL with a schema per service. Records every commit that changes rows."""

    def __init__(self, clock: Clock, record: Record, services: Sequence[str] = OUTBOXES) -> None:
        super().__init__(clock)
        self._record = record
        for service in services:
            self.create(service, migrated(Schema.of(service)))
        self.create(CONSOLE, service_tables(CONSOLE))

    def _settle(self, transaction: Transaction, *, commits: bool) -> None:
        written = {}
        for table, row, *_ in transaction.log if commits else ():
            if row.writer is transaction:
                written[table.definition.name, row.number] = row.values, row.pending
        super()._settle(transaction, commits=commits)
        if written:
            self._committed(transaction, written)

    def _committed(self, transaction: Transaction, written: Written) -> None:
        session = transaction.session
        tables: dict[str, int] = {}
        for table, _ in written:
            tables[table] = tables.get(table, 0) + 1
        if not tables.keys() <= QUIET_TABLES:
            commit = Commit(session.service, session.process, session.schema, written)
            events = commit.events if "outbox" in tables else []
            detail = {"member": commit.member, "rows": tables, "events": [event.id for event in events]}
            cause = next((event.cause for event in events if event.cause), "")
            content = repr(written).encode()
            self._record(Kind.COMMITTED, session.service, cause=cause, detail=detail, value=commit, content=content)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """An event as it was committed."""

    id: str
    type: str
    subject: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """What an invariant sees of a commit: its writer, the rows before and after, and the schema just after it."""

    service: str
    member: str
    schema: ServiceSchema
    written: Written

    @property
    def events(self) -> list[OutboxRow]:
        """The events that it publishes."""
        rows = (after for (table, _), (before, after) in self.written.items() if table == "outbox" and not before)
        return [OutboxRow(row[1], row[2], row[3], _cause(row[4])) for row in rows if row is not None]

    @property
    def cause(self) -> str:
        """The event that has caused the first of its events; empty if there is none."""
        return next((event.cause for event in self.events if event.cause), "")

    def inserted(self, table: str) -> list[Mapping[str, Any]]:
        """The rows that it adds to a table, by column."""
        written = [pair for (name, _), pair in self.written.items() if name == table]
        names = self.schema.tables[table].definition.names if written else ()
        return [dict(zip(names, after, strict=True)) for before, after in written if after is not None and not before]

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """The committed rows of a table, by column."""
        found = self.schema.tables[table]
        return [dict(zip(found.definition.names, values, strict=True)) for values in found.committed()]


def _cause(headers: Any) -> str:
    """The causing event in the headers of an outbox row, which are JSON."""
    fields = json.loads(headers) if isinstance(headers, str) else headers
    return str(fields.get("causedby") or "")
