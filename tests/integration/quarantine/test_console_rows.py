"""The console with a broken row in each table that it reads: what can be read is shown, and the rest is set aside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from running import Site

from slackwater.console import service as console
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.domain.event_log import EventFilter
from slackwater.console.domain.views import DecisionFilter
from slackwater.console.settings import ConsoleSettings

MakeSite = Callable[[str], Awaitable[Site]]
Read = Callable[[PostgresReadModel], Awaitable[Any]]
SINCE, UNTIL = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)
BODIES = {"not an object": "[1]", "text": '"x"', "empty": "{}", "a type is wrong": '{"node": 5, "pool": {}}'}
TABLES: dict[str, tuple[str, Read]] = {
    "node": (
        "INSERT INTO node (name, facts, offer, usage, sampled_at) VALUES ('bad', $1, $1, $1, now())",
        lambda model: model.nodes(),
    ),
    "usage_point": (
        "INSERT INTO usage_point (event_id, node, sampled_at, body) VALUES ('e', 'bad', now(), $1)",
        lambda model: model.usage("bad", SINCE, UNTIL),
    ),
    "forecast": (
        "INSERT INTO forecast (event_id, node, predicted_at, body) VALUES ('e', 'bad', now(), $1)",
        lambda model: model.forecasts("bad", SINCE, UNTIL),
    ),
    "offer": (
        "INSERT INTO offer (event_id, node, offered_at, generation, body) VALUES ('e', 'bad', now(), 1, $1)",
        lambda model: model.offers("bad", SINCE, UNTIL),
    ),
    "effect": (
        "INSERT INTO effect (decision_id, measured_at, body) VALUES ('d', now(), $1)",
        lambda model: model.effect("d"),
    ),
    "observation": (
        "INSERT INTO observation (event_id, observed_at, decision_ids, body) VALUES ('e', now(), '{d}', $1)",
        lambda model: model.observations("d"),
    ),
    "eviction": (
        "INSERT INTO eviction (node, id, decision_id, completed_at, body) VALUES ('n', 'v', 'd', now(), $1)",
        lambda model: model.evictions("d"),
    ),
    "decision": (
        """INSERT INTO decision (id, node, kind, subject, reason, decided_at, body)
        VALUES ('d', 'bad', 'offer', 'batch-cpu', 'offer_first', now(), $1)""",
        lambda model: model.decision("d"),
    ),
    "usage_window": (
        "INSERT INTO usage_window (event_id, closed_at, body) VALUES ('e', now(), $1)",
        lambda model: model.window("e"),
    ),
    "process": (
        "INSERT INTO process (instance, reported_at, body) VALUES ('i', now(), $1)",
        lambda model: model.processes(),
    ),
    "strategy": (
        "INSERT INTO strategy (name, told_at, body) VALUES ('s', now(), $1)",
        lambda model: model.strategies(),
    ),
    "resource_generation": (
        """INSERT INTO resource_generation (kind, name, generation, changed_at, deleted, body)
        VALUES ('Autonomy', 'gold', 1, now(), false, $1)""",
        lambda model: model.resources("Autonomy"),
    ),
    "move": (
        "INSERT INTO move (job, changed_at, step, body) VALUES ('j', now(), 'moving', $1)",
        lambda model: model.moves(SINCE, 9),
    ),
    "quota_ledger": (
        "INSERT INTO quota_ledger (tree, at, accounted_at, body) VALUES ('t', now(), now(), $1)",
        lambda model: model.quota_ledgers(),
    ),
}


async def test_rows_that_are_broken_are_left_out(site: MakeSite) -> None:
    made = await site("console")
    async with made.running(console, ConsoleSettings()) as service:
        for body in BODIES.values():
            await _are_left_out(made, service, body)


async def _are_left_out(made: Site, service: Any, body: str) -> None:
    for plant, _ in TABLES.values():
        await made.sql.execute(plant, body)
    assert {table: await read(service.model) or None for table, (_, read) in TABLES.items()} == dict.fromkeys(TABLES)
    await service.quarantine.work()
    items = await service.quarantine.items()
    assert {item.table for item in items} == TABLES.keys()
    for item in items:
        await made.item(service.quarantine, item.table, item.row)
    await service.model.totals(SINCE, 0.2)
    await service.model.decisions(DecisionFilter())
    for item in items:
        await made.sql.execute(f"DELETE FROM {item.table}")  # noqa: S608 - ours
        await made.release(service.quarantine, item)


async def test_listed_events_without_an_object_are_left_out(site: MakeSite) -> None:
    """Any object can be shown."""
    made = await site("console")
    plant = "INSERT INTO event (id, type, source, node, time, body) VALUES ($1, 't.t', 's', 'n', now(), $2)"
    for how in ("not an object", "text"):
        await made.sql.execute(plant, how, BODIES[how])
    async with made.running(console, ConsoleSettings()) as service:
        assert not await service.model.events(EventFilter())
        await service.quarantine.work()
        items = {(item.table, item.row) for item in await service.quarantine.items()}
        assert items == {("event", "not an object"), ("event", "text")}


PODS = {
    "no JSON": "{",
    "no list": "7",
    "no pods": "[1, null, {}]",
    "a type is wrong": '[{"throttled": "x", "name": 5}]',
}


async def test_broken_pods_of_some_nodes_leave_the_lists_over_all_nodes(site: MakeSite) -> None:
    made = await site("console")
    plant = (
        "INSERT INTO node (name, usage, reported_pods, sampled_at) VALUES ($1, '{\"throttled_pods\": 1}', $2, now())"
    )
    await made.sql.executemany(plant, PODS.items())
    await made.sql.execute(plant, "good", '[{"uid": "u", "name": "5", "namespace": "d"}]')
    async with made.running(console, ConsoleSettings()) as service:
        assert await service.model.throttled_pods(SINCE, 10) == []
        assert [pod.node for pod in await service.model.pods_called("u")] == ["good"]


async def test_a_broken_effect_leaves_the_times_of_the_loop(site: MakeSite) -> None:
    made = await site("console")
    for number, body in enumerate(('{"seconds_to_actuation": "x"}', '{"seconds_to_actuation": 2}', "[1]")):
        await made.sql.execute(
            """INSERT INTO decision (id, node, kind, subject, reason, decided_at, body)
            VALUES ($1, 'n', 'throttle', 'cpu', 'throttle_waterline_crossed', now(), '{}')""",
            f"d{number}",
        )
        await made.sql.execute(
            "INSERT INTO effect (decision_id, measured_at, body) VALUES ($1, now(), $2)", f"d{number}", body
        )
    async with made.running(console, ConsoleSettings()) as service:
        assert len(await service.model.loop_times(SINCE, 10)) == 3


async def test_no_column_of_the_read_model_holds_a_time_that_cannot_be_read(site: MakeSite) -> None:
    made = await site("console")
    columns = await made.sql.fetch(
        """SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'console' AND data_type = 'timestamp with time zone' AND NOT table_name = ANY($1)""",
        ["outbox", "inbox", "members", "leases", "quarantine"],
    )
    bounded = {
        row["definition"]
        for row in await made.sql.fetch(
            """SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) AS definition FROM pg_constraint
            WHERE contype = 'c' AND convalidated"""
        )
    }
    assert len(columns) >= 18
    for table, column in columns:
        starts = (f"(({column} >=", f'(("{column}" >=')
        found = [text for text in bounded if text.startswith(f"{table} CHECK") and any(one in text for one in starts)]
        assert len(found) == 1, (table, column)
    insert = "INSERT INTO process (instance, reported_at, body) VALUES ('i', '{}', '[]')"
    for absurd in ("infinity", "10000-01-01Z", "4000-01-01 BC"):
        with pytest.raises(asyncpg.CheckViolationError):
            await made.sql.execute(insert.format(absurd))
