"""A changed account of the services is in force without a restart: a nats-server reads it on SIGHUP, which `slackwater
nats-reload` sends, and ingestion puts it in force.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from broker_scene import NODES, Broker, secured
from nats.aio.client import Client

from slackwater.bus.access import accounts
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.broker import Certificates, issuing_access, put_services_in_force, write_config
from slackwater.model.errors import Misconfigured, Unavailable

pytestmark = pytest.mark.timeout(120)
ADDED = "test.of-the-reload"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    scene = await secured(tmp_path / "broker", declared=False)
    access = scene.access("ingestion", authority_file=scene.folder / "access.seed")
    async with scene.service("ingestion") as bus, issuing_access(bus, scene.url, access):
        yield scene
    await scene.server.stop()


def reload(broker: Broker) -> None:
    """Write the configuration anew beside what exists, and send SIGHUP."""
    certificate, key = broker.trusted.folder / "127.0.0.1.pem", broker.trusted.folder / "127.0.0.1.key"
    write_config(broker.folder, NODES, "127.0.0.1", 4222, Certificates(certificate, key, broker.trusted.ca))
    assert broker.server.pid is not None
    os.kill(broker.server.pid, signal.SIGHUP)


async def is_admitted(broker: Broker, file: Path, user: str = "quota") -> bool:
    access = broker.tls().model_copy(update={"credentials_file": file})
    with suppress(Misconfigured, Unavailable):
        async with connect_bus(broker.url, name=user, access=access, wait_seconds=1, declares=False):
            return True
    return False


async def test_credentials_made_anew_replace_the_former_ones(broker: Broker) -> None:
    made, former = broker.folder / "credentials" / "quota.creds", broker.folder / "former.creds"
    assert await is_admitted(broker, made)
    async with broker.service("prediction") as other:
        made.rename(former)
        reload(broker)
        while not await is_admitted(broker, made):
            await asyncio.sleep(0.05)
        assert not await is_admitted(broker, former)
        await other.client.flush()
        assert other.client.stats["reconnects"] == 0, "other services stay connected"


async def test_ingestions_own_file_that_is_made_anew_replaces_the_former_one(tmp_path: Path) -> None:
    """It puts its own account in force through the broker's system account, and reads its file again."""
    broker = await secured(tmp_path / "broker", declared=False)
    made, former = broker.folder / "credentials" / "ingestion.creds", broker.folder / "former.creds"
    access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
    async with broker.service("ingestion") as bus, issuing_access(bus, broker.url, access):
        made.rename(former)
        reload(broker)
        while not await is_admitted(broker, made, "ingestion"):
            await asyncio.sleep(0.05)
        assert not await is_admitted(broker, former, "ingestion")
        while not (bus.client.stats["reconnects"] and bus.client.is_connected):
            await asyncio.sleep(0.05)
        await bus.client.flush()
        async with broker.service("prediction"):
            pass
    await broker.server.stop()


async def test_ingestion_starts_with_a_file_that_the_broker_has_not_put_in_force(tmp_path: Path) -> None:
    """As after both were replaced while it was away."""
    broker = await secured(tmp_path / "broker", declared=False)
    async with broker.service("quota"):  # the broker has the account in memory
        (broker.folder / "credentials" / "ingestion.creds").unlink()
        reload(broker)
        assert not await is_admitted(broker, broker.folder / "credentials" / "ingestion.creds", "ingestion")
        access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
        await put_services_in_force(broker.url, access)
        async with connect_bus(broker.url, name="ingestion", access=access, wait_seconds=5, declares=False) as bus:
            await bus.client.flush()
    await broker.server.stop()


async def test_changed_permissions_hold_for_credentials_that_stay(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, refusals = accounts.service_subjects, list[Exception]()

    async def note(error: Exception) -> None:
        refusals.append(error)

    async def is_refused(client: Client) -> bool:
        refusals.clear()
        await client.publish(ADDED, b"")
        await client.flush()
        await client.flush()  # nats-py sends the ping of a flush before what is to be flushed
        return bool(refusals)

    async with broker.service("prediction") as service:
        service.client._error_cb = note
        assert await is_refused(service.client)
        monkeypatch.setattr(accounts, "service_subjects", lambda part, topology: [*before(part, topology), ADDED])
        reload(broker)
        reconnects = service.client.stats["reconnects"]
        while service.client.stats["reconnects"] == reconnects or not service.client.is_connected:
            await asyncio.sleep(0.05)
        assert not await is_refused(service.client)
