"""The pytest plugin with fixtures for real servers and their in-memory versions (`-p slackwater.testing.fixtures`)."""

from __future__ import annotations

import asyncio

import pytest

from slackwater.testing.nats_server import bus, nats_url
from slackwater.testing.open_database import open_database
from slackwater.testing.postgres_server import fresh_database, postgres_dsn, postgres_server, postgres_templates
from slackwater.testing.servers import servers_home, test_servers
from slackwater.testing.spans import exporter

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
