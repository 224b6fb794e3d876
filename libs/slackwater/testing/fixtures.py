"""Our pytest plugin: fixtures for real servers and their twins (`-p slackwater.testing.fixtures`)."""

from __future__ import annotations

import asyncio

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """Give pytest-asyncio a loop to come back to: it would make one itself and leave it open (a ResourceWarning)."""
    session.config.stash[_LOOP] = loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)


def pytest_sessionfinish(session: pytest.Session) -> None:
    asyncio.set_event_loop(None)
    session.config.stash[_LOOP].close()


_LOOP = pytest.StashKey[asyncio.AbstractEventLoop]()
