"""A broken row of the outbox is refused with its reason; the others go out, and the relay runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from probe_service import Broker, eventually, liveness, probe, running
from sqlalchemy import text

from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.identifiers import ALL_PARTITIONS, new_id
from slackwater.store.backlog import oldest_waiting
from slackwater.store.engine import PostgresDatabase
from slackwater.store.outbox import REFUSED_KEPT

__all__ = ["probe"]

SOUND = {
    "type": "node.liveness_changed.v1",
    "subject": "sw.v1.node.liveness_changed.7.n",
    "headers": '{"source": "s", "time": "2026-01-05T00:00:00+00:00", "causedby": null, "traceparent": null}',
    "payload": "{}",
}
BROKEN: Mapping[str, Mapping[str, str]] = {
    "subject without a shard": {"subject": "sw.v1.node.liveness_changed.x.n"},
    "subject of a shard that is none": {"subject": "sw.v1.node.liveness_changed.99.n"},
    "empty subject": {"subject": ""},
    "no such type": {"type": "no.such.v1"},
    "headers are no JSON": {"headers": "{"},
    "headers are a list": {"headers": "[]"},
    "headers without a source": {"headers": "{}"},
    "payload is no JSON": {"payload": "no JSON"},
}


class Held:
    """A fence that holds every partition."""

    member = "a/1"

    def held(self) -> Mapping[int, int]:
        return dict.fromkeys(ALL_PARTITIONS, 1)

    def holds(self, partition: int) -> bool:
        return partition in ALL_PARTITIONS

    def on_change(self, changed: object) -> None:
        del changed

    def refused(self, partitions: object) -> None:
        del partitions


@pytest.mark.parametrize("fenced", [False, True], ids=["alone", "fenced"])
async def test_broken_rows_are_refused_and_stop_no_other(probe: PostgresDatabase, fenced: bool) -> None:
    async with probe.unit_of_work() as unit:
        for change in BROKEN.values():
            await unit.connection.execute(
                text(
                    "INSERT INTO outbox (id, type, subject, headers, payload)"
                    " VALUES (CAST(:id AS uuid), :type, :subject, :headers, :payload)"
                ),
                {"id": new_id(), **SOUND, **change},
            )
        await unit.publish(liveness("n", 1))
    assert set(await oldest_waiting(probe, NodeLivenessChanged)) != set()
    broker = Broker()
    database = probe.fenced(Held()) if fenced else probe  # type: ignore[arg-type]  # what the relay asks of a fence
    async with running(database.relay(broker.carry)) as relay:
        await eventually(lambda: broker.numbers("n") == [1])
        while (backlog := await probe.backlog()) is not None and backlog.depth:
            assert not relay.done()
        async with probe.unit_of_work() as unit:
            await unit.publish(liveness("n", 2))
        await eventually(lambda: broker.numbers("n") == [1, 2])
    async with probe.unit_of_work() as unit:
        reasons = (await unit.connection.execute(text("SELECT refused FROM outbox ORDER BY position"))).scalars().all()
    assert len(reasons) == len(BROKEN)
    assert all(reasons)


async def test_a_row_that_an_older_replica_refused_goes_out_in_its_place(probe: PostgresDatabase) -> None:
    """During a rolling change: the older version does not know the type, this one does. A later row of the subject
    does not overtake it. Its own refusals stay."""
    async with probe.unit_of_work() as unit:
        await unit.publish(liveness("n", 1))
        await unit.publish(liveness("m", 1))
        await unit.connection.execute(
            text("UPDATE outbox SET refused = 'type: ''node.liveness_changed.v1'' is not in the registry of events'")
        )
        insert = "INSERT INTO outbox (id, type, subject, headers, payload, refused) VALUES (CAST(:id AS uuid), :type,"
        await unit.connection.execute(
            text(insert + " :subject, :headers, :payload, :refused)"),
            {"id": new_id(), **SOUND, "refused": "ValueError: broken"},
        )
        await unit.publish(liveness("n", 2))
    broker = Broker()
    async with running(probe.relay(broker.carry)):
        await eventually(lambda: len(broker.numbers("n")) == 2 and broker.numbers("m") == [1])
    assert broker.numbers("n") == [1, 2]
    async with probe.unit_of_work() as unit:
        reasons = (await unit.connection.execute(text("SELECT refused FROM outbox"))).scalars().all()
    assert "ValueError: broken" in reasons


async def test_of_rows_set_aside_the_newest_are_kept(probe: PostgresDatabase) -> None:
    async with probe.unit_of_work() as unit:
        insert = "INSERT INTO outbox (id, type, subject, headers, payload, refused) VALUES (CAST(:id AS uuid), :type,"
        for number in range(REFUSED_KEPT + 5):
            values = {"id": new_id(), **SOUND, "refused": f"too large, {number}"}
            await unit.connection.execute(text(insert + " :subject, :headers, :payload, :refused)"), values)
    async with running(probe.relay(Broker().carry)):
        async with asyncio.timeout(60):
            while (backlog := await probe.backlog()) is None or backlog.refused > REFUSED_KEPT:
                await asyncio.sleep(0.05)
    assert (backlog.refused, backlog.depth) == (REFUSED_KEPT, 0)
    async with probe.unit_of_work() as unit:
        reasons = (await unit.connection.execute(text("SELECT refused FROM outbox ORDER BY position"))).scalars().all()
    assert reasons[0] == "too large, 5"
