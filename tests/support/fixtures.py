"""The pytest plugin with fixtures for real servers and their in-memory versions (`-p tests.support.fixtures`)."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.nats_server import bus, nats_url
from tests.support.open_database import open_database
from tests.support.postgres_server import fresh_database, postgres_dsn, postgres_server, postgres_templates
from tests.support.servers import servers_home, test_servers
from tests.support.spans import exporter

__all__ = [
    "bus",
    "exporter",
    "fresh_database",
    "nats_url",
    "open_database",
    "postgres_dsn",
    "postgres_server",
    "postgres_templates",
    "servers_home",
    "test_servers",
]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Set an event loop, because pytest-asyncio would create one and leave it open (a ResourceWarning)."""
    session.config.stash[_LOOP] = loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)


def pytest_sessionfinish(session: pytest.Session) -> None:
    asyncio.set_event_loop(None)
    session.config.stash[_LOOP].close()


_LOOP = pytest.StashKey[asyncio.AbstractEventLoop]()
