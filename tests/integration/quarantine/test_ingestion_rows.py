"""Ingestion with a broken row in each table that it loads: the others are served, and the row is released."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from running import Site, eventually, left_out

from slackwater.bus.port import Done
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion import service as ingestion
from slackwater.ingestion.settings import IngestionSettings
from slackwater.testing.reports import described, pod_usage, report
from slackwater.testing.windows import START

MakeSite = Callable[[str], Awaitable[Site]]
SETTINGS = IngestionSettings(window_seconds=60, lateness_seconds=0, stagger_windows=False)
NODES = {
    "year 10000": "UPDATE nodes SET newest_at = '12000-01-01' WHERE name = 'bad'",
    "before all times": "UPDATE nodes SET closed_until = '-infinity' WHERE name = 'bad'",
    "no numbers": "UPDATE nodes SET missing = '{NULL}' WHERE name = 'bad'",
    "a run without end": "UPDATE nodes SET missing = '{1,-9223372036854775807}' WHERE name = 'bad'",
    "a run without beginning": "UPDATE nodes SET missing = '{-5}' WHERE name = 'bad'",
    "beyond what adds up": "UPDATE nodes SET memory_capacity_bytes = 9223372036854775807 WHERE name = 'bad'",
}
HISTORY = {
    "node_usage": {
        "malformed JSON": "UPDATE node_usage SET host_apps = '{' WHERE node = 'bad'",
        "too few numbers": "UPDATE node_usage SET cpu = '{1}' WHERE node = 'bad'",
    },
    "report_pods": {
        "too few numbers": "UPDATE report_pods SET cpu = '{1}' WHERE node = 'bad'",
        "no numbers": "UPDATE report_pods SET cpu = '{NULL}' WHERE node = 'bad'",
    },
    "pods": {
        "a type is wrong": """UPDATE pods SET pod = jsonb_set(pod, '{request}', '"x"') WHERE node = 'bad'""",
        "not an object": "UPDATE pods SET pod = '7' WHERE node = 'bad'",
    },
}


class Windows:
    def __init__(self) -> None:
        self.told: list[UsageWindowed] = []

    async def __call__(self, batch: Any) -> list[Done]:
        self.told += [received.event.data for received in batch]
        return [Done()] * len(batch)

    def of(self, node: str) -> list[UsageWindowed]:
        return [one for one in self.told if one.node == node and one.window_start >= START]


async def tell(site: Site, first: int, count: int, *, pods: bool = True) -> None:
    """A report of both nodes every ten seconds; a report that lists a pod describes it anew."""
    for number in range(first, first + count):
        at = START + timedelta(seconds=10 * number)
        site.clock.minutes = number / 6  # type: ignore[assignment] # minutes and parts of them
        for node in ("good", "bad"):
            data = report(node, number + 1, at, pods=(pod_usage(f"{node}-p"),) if pods else ())
            await site.bus.publish(event_of(data, source="tests", time=at, id=f"{node}-{number}"))


@pytest.fixture
async def ingesting(site: MakeSite) -> Site:
    """Two nodes whose first window is still open; the service has ended in good order."""
    made = await site("ingestion")
    async with made.running(ingestion, SETTINGS):
        for node in ("good", "bad"):
            await made.bus.publish(event_of(described(node, START), source="tests", time=START))
        await tell(made, 0, 4)
        await eventually(lambda: made.sql.fetchval("SELECT count(*) = 8 FROM node_usage"))
    return made


@pytest.mark.parametrize("how", NODES)
async def test_a_node_that_is_broken_costs_itself_only(ingesting: Site, how: str) -> None:
    whole = await ingesting.sql.fetchrow("SELECT * FROM nodes WHERE name = 'bad'")
    await ingesting.sql.execute(NODES[how])
    windows = Windows()
    async with (
        ingesting.bus.replay(UsageWindowed, windows, after_sequence=0),
        ingesting.running(ingestion, SETTINGS) as service,
    ):
        await tell(ingesting, 4, 6)
        item = await ingesting.item(service.quarantine, "nodes", "bad")
        assert item.node == "bad"
        await tell(ingesting, 10, 8)
        await eventually(lambda: windows.of("good"))
        assert not windows.of("bad")
        assert left_out("ingestion", "usage.reported") > 0
        await ingesting.sql.execute(
            "UPDATE nodes SET newest_at = $1, closed_until = $2, missing = $3, memory_capacity_bytes = $4"
            " WHERE name = 'bad'",
            *(whole[name] for name in ("newest_at", "closed_until", "missing", "memory_capacity_bytes")),
        )
        await ingesting.release(service.quarantine, item)
        for minute in itertools.count(3):
            if windows.of("bad"):
                break
            await tell(ingesting, 6 * minute, 6)  # a window is closed when a report begins the next one
            await asyncio.sleep(0.5)


@pytest.mark.parametrize(("table", "how"), [(table, how) for table, cases in HISTORY.items() for how in cases])
async def test_history_that_is_broken_costs_its_row_only(ingesting: Site, table: str, how: str) -> None:
    await ingesting.sql.execute(HISTORY[table][how])
    windows = Windows()
    async with (
        ingesting.bus.replay(UsageWindowed, windows, after_sequence=0),
        ingesting.running(ingestion, SETTINGS) as service,
    ):
        await tell(ingesting, 4, 14, pods=table != "pods")
        await eventually(lambda: windows.of("good") and windows.of("bad"))
        row = "bad-p" if table == "pods" else "bad/boot-1/2"
        item = await ingesting.item(service.quarantine, table, row)
        assert not service.quarantine.holds_node("bad")
        await ingesting.release(service.quarantine, item)


BLOCKS = {
    "a reason that no event holds": "INSERT INTO agent_blocks VALUES ('bad', 1, true, repeat('x', 1000), 'a', now())",
    "a name with a control character": "INSERT INTO agent_blocks VALUES (E'b\\x01d', 1, true, 'r', 'a', now())",
    "year 12000": "INSERT INTO agent_blocks VALUES ('bad', 1, true, 'r', 'a', '12000-01-01')",
    "before all times": "INSERT INTO agent_blocks VALUES ('bad', 1, true, 'r', 'a', '-infinity')",
}


@pytest.mark.parametrize("how", BLOCKS)
async def test_a_block_that_is_broken_hides_no_other(site: MakeSite, how: str) -> None:
    made = await site("ingestion")
    await made.sql.execute(BLOCKS[how])
    await made.sql.execute("INSERT INTO agent_blocks VALUES ('good', 1, true, 'r', 'a', now())")
    announced: list[str] = []

    async def note(event: Event[AgentBlockChanged]) -> None:
        announced.append(event.data.node)

    async with made.bus.watch(AgentBlockChanged, note), made.running(ingestion, SETTINGS) as service:
        while "good" not in announced:
            await service.announce()  # it is every minute, and at first nothing is owned yet
            await asyncio.sleep(0.05)
        if "year" in how or "before" in how:  # the time is bounded where it is read
            await eventually(lambda: "bad" in announced)
        else:
            await eventually(service.quarantine.known)
            assert {item.table for item in service.quarantine.known()} == {"agent_blocks"}
        assert set(announced) <= {"good", "bad"}
