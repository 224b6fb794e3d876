"""A stream at its limit: said clearly, by name, before and while it is full; everything else is stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from jetstream_lab import Server
from test_bus_faults import NOW, effect

from slackwater.bus.admin.streams import Topology, load
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.errors import StreamFull
from slackwater.runtime.broker_watch import BrokerWatch
from slackwater.runtime.embedded_nats import EmbeddedNats

LIMIT_BYTES = 100_000


def small(limit_bytes: int = LIMIT_BYTES) -> Topology:
    """The real streams, with little room for decisions."""
    topology = load()
    tiny = topology.streams["DECISIONS"].model_copy(update={"max_bytes": limit_bytes})
    return topology.model_copy(update={"streams": {**topology.streams, "DECISIONS": tiny}})


async def fill(bus: NatsBus) -> str:
    """Publish until DECISIONS refuses; returns how."""
    for number in range(10_000):
        try:
            await bus.publish(effect(f"d{number}"))
        except StreamFull as error:
            return error.message
    raise AssertionError("it never refuses")


async def test_it_refuses_by_name_and_other_streams_take_messages(killable: Server) -> None:
    async with killable.connect(name="test", topology=small()) as bus:
        said = await fill(bus)
        assert said.startswith("stream DECISIONS refused sw.v1.effect.measured.")
        assert "maximum bytes exceeded" in said
        intent = IntentDeclared(node="n", writer="ensurance", generation=1, declared_at=NOW, lease_seconds=1)
        await bus.publish(event_of(intent, source="test", time=NOW))


async def test_it_is_no_trouble_of_the_broker_which_is_not_restarted(killable: Server) -> None:
    """A restart every 30 s would interrupt all streams, and free no room in this one."""
    restarts = 0

    async def restart() -> None:
        nonlocal restarts
        restarts += 1

    now = 0.0
    async with killable.connect(name="test", topology=small()) as bus:
        watch = BrokerWatch(bus, restart=restart, monotonic=lambda: now)
        await fill(bus)
        for _ in range(3):
            await watch.check()
            now += 60.0
        assert (await watch.checks())[0].ok
    assert restarts == 0


async def test_how_full_it_is_can_be_seen_and_with_more_room_it_goes_on(killable: Server) -> None:
    async with killable.connect(name="test", topology=small()) as bus:
        assert (await bus.backlogs()).streams["DECISIONS"].must_not_fill
        await fill(bus)
        full = (await bus.backlogs()).streams["DECISIONS"]
        assert 0.98 * LIMIT_BYTES < full.stored_bytes <= full.limit_bytes == LIMIT_BYTES
    async with killable.connect(name="test", topology=small(2 * LIMIT_BYTES)) as bus:
        await bus.publish(effect("more"))


def test_of_the_streams_only_those_that_age_out_may_fill() -> None:
    topology = load()
    assert {name for name in topology.streams if not topology.must_not_fill(name)} == {
        "USAGE",
        "WINDOWS",
        "URGENT",
        "AGENTS",
        "ROSTERS",
    }


@pytest.mark.parametrize(("limit", "shown"), [("", {}), ("max_file: 8GB", {"file": 8 * 2**30})])
async def test_a_limited_account_shows_how_much_of_it_is_used(
    tmp_path: Path, limit: str, shown: dict[str, int]
) -> None:
    accounts = tmp_path / "accounts.conf"
    accounts.write_text(
        f'accounts {{ A {{ jetstream {{ {limit} }}, users: [{{user: "a", password: "a"}}] }} }}\nno_auth_user: a\n'
    )
    server = EmbeddedNats(tmp_path / "nats", include=accounts)
    await server.start()
    try:
        async with connect_bus(server.url, name="test") as bus:
            await bus.publish(effect("one"))
            stores = (await bus.backlogs()).stores
    finally:
        await server.stop()
    assert {name: limit for name, (_, limit) in stores.items()} == shown
    assert all(used > 0 for used, _ in stores.values())
