"""The broker's users `backup` and `restore` copy streams and make missing ones again, and can do nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from broker_scene import Broker, secured
from nats.errors import Error as NatsError
from tests.support.reports import described

from slackwater.bus.admin.permissions import BACKUP, RESTORE
from slackwater.bus.admin.stream_backup import copy_stream, restore_stream
from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import event_of
from slackwater.model.errors import Conflict, Unavailable

NODE = "n.1"
SUBJECTS = (
    *("PURGE.STATE", "DELETE.STATE", "UPDATE.STATE", "MSG.GET.STATE", "SNAPSHOT.USAGE", "RESTORE.USAGE"),
    *("CREATE.NEW", "NAMES"),
)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    scene = await secured(tmp_path / "first")
    now = datetime.now(UTC)
    async with scene.agent(NODE) as agent:
        await agent.publish(event_of(described(NODE, now), source="agent", time=now))
    yield scene
    await scene.server.stop()


def user(broker: Broker, name: str) -> AbstractAsyncContextManager[NatsBus]:
    return connect_bus(broker.url, name=name, declares=False, access=broker.access(name))


async def test_one_copies_every_durable_stream_and_the_other_makes_them_again(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with user(broker, BACKUP) as backup:
        copies = {name: await copy_stream(backup.client, name, tmp_path / name) for name in load().durable()}
    assert copies["STATE"].messages == 1
    async with user(broker, RESTORE) as restore:
        with pytest.raises(Conflict, match="NATS refuses"):
            await restore_stream(restore.client, copies["STATE"], tmp_path / "STATE")
    empty = await secured(tmp_path / "other", declared=False)
    try:
        async with user(empty, RESTORE) as restore:
            for name, copy in copies.items():
                await restore_stream(restore.client, copy, tmp_path / name)
        async with empty.service("console") as console:
            message = await console.jetstream.get_msg("STATE", copies["STATE"].last_position)
            assert NODE in (message.data or b"").decode()
    finally:
        await empty.server.stop()
    assert "eof_received" not in caplog.text, "an operator reads what these commands write"


@pytest.mark.parametrize("name", [BACKUP, RESTORE])
async def test_neither_reads_writes_or_removes_anything(broker: Broker, name: str) -> None:
    others = ("$JS.API.DIRECT.GET.STATE", "$JS.API.CONSUMER.CREATE.STATE", "sw.v1.node.described.0.x")
    async with user(broker, name) as held:
        for subject in (*(f"$JS.API.STREAM.{one}" for one in SUBJECTS), *others):
            with pytest.raises(NatsError):
                await held.client.request(subject, b"{}", timeout=0.2)
    async with broker.service("console") as console:
        assert (await console.jetstream.stream_info("STATE")).state.messages == 1


async def test_the_nightly_user_cannot_restore_nor_the_other_copy(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.bus.admin.stream_backup.CHUNK_SECONDS", 0.3)
    async with user(broker, BACKUP) as backup:
        copy = await copy_stream(backup.client, "STATE", tmp_path / "copy")
        with pytest.raises(Unavailable, match="RESTORE"):
            await restore_stream(backup.client, copy, tmp_path / "copy")
    async with user(broker, RESTORE) as restore:
        with pytest.raises(Unavailable, match="SNAPSHOT"):
            await copy_stream(restore.client, "STATE", tmp_path / "other")
