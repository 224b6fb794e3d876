"""The relay of PostgreSQL's outbox does not wait for a subject that gets no answer."""

from __future__ import annotations

import asyncio

import pytest
from probe_service import NOW, PROBE, Broker, eventually, liveness, probe, running
from tests.support.postgres_server import FreshDatabase

from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of
from slackwater.events.serialized import Written
from slackwater.model.time import SystemClock
from slackwater.store import outbox
from slackwater.store.engine import PostgresDatabase, connect_database

__all__ = ["probe"]


async def test_a_subject_without_an_answer_is_not_waited_for(probe: PostgresDatabase) -> None:
    broker, answered = Broker(), asyncio.Event()

    async def carry(event: Written) -> None:
        if event.event().data.node == "silent":
            await answered.wait()
        await broker.carry(event)

    async def commit(node: str, number: int) -> None:
        async with probe.unit_of_work() as unit:
            await unit.publish(liveness(node, number))

    relay = probe.relay(carry)
    async with running(relay):
        await commit("silent", 1)
        await commit("a", 1)
        await eventually(lambda: broker.numbers("a") == [1])
        await commit("silent", 2)  # behind the one that flies: not begun before it has landed
        await commit("a", 2)
        await eventually(lambda: broker.numbers("a") == [1, 2])
        assert broker.numbers("silent") == []
        answered.set()
        await eventually(lambda: broker.numbers("silent") == [1, 2])
        while (await relay.backlog()).depth:
            await asyncio.sleep(0.005)


async def test_what_was_published_when_the_relay_is_stopped_is_not_published_again(probe: PostgresDatabase) -> None:
    broker, never = Broker(), asyncio.Event()

    async def carry(event: Written) -> None:
        if event.event().data.node == "silent":
            await never.wait()
        await broker.carry(event)

    async with probe.unit_of_work() as unit:
        await unit.publish(liveness("silent", 1))
        await unit.publish(liveness("a", 1))
    relay = probe.relay(carry)
    async with running(relay):
        await eventually(lambda: broker.numbers("a") == [1])
    assert (await relay.backlog()).depth == 1


async def test_what_is_committed_meanwhile_does_not_wait_for_answers(
    probe: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "PATIENCE_SECONDS", 3600.0)
    monkeypatch.setattr(outbox, "POLL_SECONDS", 3600.0)
    broker, never = Broker(), asyncio.Event()

    async def carry(event: Written) -> None:
        if event.event().data.node == "silent":
            broker.attempts += 1
            await never.wait()
        await broker.carry(event)

    async with running(probe.relay(carry)):
        async with probe.unit_of_work() as unit:
            await unit.publish(liveness("silent", 1))
        await eventually(lambda: broker.attempts == 1)
        async with probe.unit_of_work() as unit:
            await unit.publish(liveness("a", 1))
        await eventually(lambda: broker.numbers("a") == [1])


async def test_the_commit_of_another_process_wakes_the_relay(
    fresh_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "POLL_SECONDS", 3600.0)
    dsn = (await fresh_database([PROBE]))["probe"]
    ours, theirs = (connect_database(dsn, "probe", SystemClock()) for _ in range(2))
    broker = Broker()
    async with running(ours.relay(broker.carry)):
        for number in range(1, 4):
            async with theirs.unit_of_work() as unit:
                await unit.publish(liveness("a", number))
            await eventually(lambda number=number: broker.numbers("a")[-1:] == [number])  # type: ignore[misc]
    await ours.close()
    await theirs.close()


async def test_one_failing_subject_delays_no_other(probe: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(outbox, "LONGEST_PAUSE_SECONDS", 3600.0)
    broker = Broker()
    broker.failing_nodes.add("ill")
    async with running(probe.relay(broker.carry)):
        async with probe.unit_of_work() as unit:
            await unit.publish(liveness("ill", 1))
        await eventually(lambda: broker.attempts >= 2)
        async with probe.unit_of_work() as unit:
            await unit.publish(liveness("a", 1))
        await eventually(lambda: broker.numbers("a") == [1])


async def test_a_bus_that_is_away_is_not_tried_with_the_whole_outbox(
    probe: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(outbox, "LONGEST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(outbox, "_BATCH", 20)
    broker = Broker()
    broker.away = True
    async with probe.unit_of_work() as unit:
        for number in range(60):
            await unit.publish(liveness(f"n{number}", 1))
    async with running(probe.relay(broker.carry)):
        await eventually(lambda: broker.attempts >= 20)
        await asyncio.sleep(0.3)
    assert broker.attempts <= 40


async def test_a_full_stream_delays_no_other_and_gets_its_events_in_order_once_it_has_room(
    probe: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More subjects than a relay reads at once fail; it must not take that for a bus that is away."""
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(outbox, "LONGEST_PAUSE_SECONDS", 3600.0)
    broker = Broker()
    broker.full_streams.add("DECISIONS")
    async with probe.unit_of_work() as unit:
        for number in range(500):
            await unit.publish(effect(f"d{number}", "first"))
            await unit.publish(effect(f"d{number}", "second"))
    async with running(probe.relay(broker.carry)):
        await eventually(lambda: broker.attempts > 0)
        for number in range(1, 4):
            async with probe.unit_of_work() as unit:
                await unit.publish(liveness("a", number))
            await eventually(lambda number=number: broker.numbers("a")[-1:] == [number])  # type: ignore[misc]
        broker.full_streams.clear()
        await eventually(lambda: len(broker.arrived) == 1003)
    by_decision: dict[str, list[str]] = {}
    for event in broker.arrived:
        if isinstance(event.data, EffectMeasured):
            by_decision.setdefault(event.data.decision_id, []).append(event.data.metric)
    assert by_decision == {f"d{number}": ["first", "second"] for number in range(500)}


def effect(decision: str, metric: str) -> Event[EffectMeasured]:
    data = EffectMeasured(
        decision_id=decision,
        node="a",
        metric=metric,
        before=1,
        after=0,
        waterline=0,
        relieved=True,
        actuated_at=NOW,
        measured_at=NOW,
        seconds_to_actuation=0,
        seconds_to_measurement=0,
    )
    return event_of(data, source="tests", time=NOW)
