"""PostgreSQL and nats-server in memory for the services of one test, in the virtual time of its loop (looptime)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.clock import EPOCH, LoopClock
from tests.support.jetstream.broker import JetStreamBroker
from tests.support.jetstream.client import connect_memory_bus
from tests.support.link import SoonLink
from tests.support.postgres_twin.database import twin_database
from tests.support.postgres_twin.migrated import migrated
from tests.support.postgres_twin.server import Server

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.runtime.platform import Platform, new_member
from slackwater.store.engine import PostgresDatabase
from slackwater.store.migrations import Schema

DELAY_SECONDS = 0.0005
"""Of the link to the broker: without it, a loop of publishes leaves no virtual time for anything else."""


class TwinServers:
    """Both servers, with the schemas of some services at head. Their contents outlive the processes of a test."""

    def __init__(self, services: Sequence[str], start: datetime = EPOCH) -> None:
        self.clock = LoopClock(start)
        self.broker = JetStreamBroker(clock=self.clock)
        self.postgres = Server(self.clock)
        for service in services:
            self.postgres.create(service, migrated(Schema.of(service)))

    def bus(self, name: str) -> AbstractAsyncContextManager[NatsBus]:
        """The bus of one process, on its own connection."""
        return connect_memory_bus(self.broker, name=name, link=SoonLink(DELAY_SECONDS), clock=self.clock)

    def database(self, service: str, clock: Any = None) -> PostgresDatabase:
        """The database of one process."""
        return twin_database(self.postgres, service, clock or self.clock)

    def platform(self, bus: NatsBus, *services: str) -> Platform:
        """The platform of one process with these services."""
        databases = {service: self.database(service) for service in services}
        return Platform(bus, self.clock, databases.__getitem__, Path("/nowhere"), new_member("twin"))
