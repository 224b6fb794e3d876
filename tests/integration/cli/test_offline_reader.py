from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.story import story

from slackwater.cli.client import reading
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.edge.events import routes
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.envelope import Event, Payload
from slackwater.model.errors import NotFound
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database


async def record_a_story(dsn: str) -> None:
    addresses = await prepare_database(dsn, [Schema.of("console")])
    database = connect_database(addresses["console"], "console", SystemClock())
    month = timedelta(days=30)
    model = PostgresReadModel(database)
    handlers = routes(RecordEvents(model, SystemClock(), usage_retention=month, decision_retention=month))
    by_type = defaultdict[type[Payload], list[Event[Any]]](list)
    for event in story(datetime.now(UTC)):
        by_type[type(event.data)].append(event)
    for payload, events in by_type.items():
        await handlers[payload](events)
    await database.close()


def test_what_a_stopped_instance_recorded_can_be_asked_and_adds_up(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, durable=False) as server:
        asyncio.run(record_a_story(server.dsn))

    with reading(state_dir=tmp_path) as reader:
        why = reader.get("/v1/why", {"node": "edge-7", "subject": "batch-cpu"})
        nodes = reader.get("/v1/nodes")

    assert sum(row["value"] for row in why["waterfall"]) == why["result"]
    assert "edge-7" in {node["name"] for node in nodes["items"]}
    with EmbeddedPostgres(tmp_path, durable=False) as again:  # it was stopped, and nothing holds the directory
        assert again.running


def test_a_state_directory_without_records_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing is recorded"), reading(state_dir=tmp_path) as reader:
        reader.get("/v1/nodes")
