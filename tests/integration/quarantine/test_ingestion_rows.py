"""Ingestion with a broken row in each table that it loads: the others are served, and the row is released."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

from running import Site, eventually, left_out, node_of
from tests.support.reports import described, pod_usage, report
from tests.support.windows import START

from slackwater.bus.port import Done
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion import service as ingestion
from slackwater.ingestion.settings import IngestionSettings

MakeSite = Callable[[str], Awaitable[Site]]
SETTINGS = IngestionSettings(window_seconds=60, lateness_seconds=0, stagger_windows=False)
NODES = {
    "year 10000": "UPDATE nodes SET newest_at = '12000-01-01' WHERE name = $1",
    "before all times": "UPDATE nodes SET closed_until = '-infinity' WHERE name = $1",
    "no numbers": "UPDATE nodes SET missing = '{NULL}' WHERE name = $1",
    "a run without end": "UPDATE nodes SET missing = '{1,-9223372036854775807}' WHERE name = $1",
    "a run without beginning": "UPDATE nodes SET missing = '{-5}' WHERE name = $1",
    "beyond what adds up": "UPDATE nodes SET memory_capacity_bytes = 9223372036854775807 WHERE name = $1",
}
HISTORY = {
    "node_usage": {
        "malformed JSON": "UPDATE node_usage SET host_apps = '{' WHERE node = $1",
        "too few numbers": "UPDATE node_usage SET cpu = '{1}' WHERE node = $1",
    },
    "report_pods": {
        "too few numbers": "UPDATE report_pods SET cpu = '{1}' WHERE node = $1",
        "no numbers": "UPDATE report_pods SET cpu = '{NULL}' WHERE node = $1",
    },
    "pods": {
        "a type is wrong": """UPDATE pods SET pod = jsonb_set(pod, '{request}', '"x"') WHERE node = $1""",
        "not an object": "UPDATE pods SET pod = '7' WHERE node = $1",
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


async def tell(site: Site, nodes: Sequence[str], first: int, count: int, *, silent: Collection[str] = ()) -> None:
    """A report of every node every ten seconds. One that lists a pod describes it anew; silent nodes list none."""
    for number in range(first, first + count):
        at = START + timedelta(seconds=10 * number)
        site.clock.minutes = number / 6  # type: ignore[assignment] # minutes and parts of them
        for node in nodes:
            data = report(node, number + 1, at, pods=() if node in silent else (pod_usage(f"{node}-p"),))
            await site.bus.publish(event_of(data, source="tests", time=at, id=f"{node}-{number}"))


async def _ingesting(site: MakeSite, nodes: Sequence[str]) -> Site:
    """Nodes whose first window is still open; the service has ended in good order."""
    made = await site("ingestion")
    async with made.running(ingestion, SETTINGS):
        for node in nodes:
            await made.bus.publish(event_of(described(node, START), source="tests", time=START))
        await tell(made, nodes, 0, 4)
        await eventually(lambda: made.sql.fetchval("SELECT count(*) = $1 FROM node_usage", 4 * len(nodes)))
    return made


async def test_a_node_that_is_broken_costs_itself_only(site: MakeSite) -> None:
    broken = {node_of(how): statement for how, statement in NODES.items()}
    nodes = ("good", *broken)
    ingesting = await _ingesting(site, nodes)
    whole = await ingesting.sql.fetch(
        "SELECT newest_at, closed_until, missing, memory_capacity_bytes, name FROM nodes WHERE name != 'good'"
    )
    for node, statement in broken.items():
        await ingesting.sql.execute(statement, node)
    windows = Windows()
    async with (
        ingesting.bus.replay(UsageWindowed, windows, after_sequence=0),
        ingesting.running(ingestion, SETTINGS) as service,
    ):
        await tell(ingesting, nodes, 4, 6)
        items = await ingesting.items(service.quarantine, "nodes", broken)
        assert {node: item.node for node, item in items.items()} == {node: node for node in broken}
        await tell(ingesting, nodes, 10, 8)
        await eventually(lambda: windows.of("good"))
        assert not any(windows.of(node) for node in broken)
        assert left_out("ingestion", "usage.reported") >= len(broken)
        await ingesting.sql.executemany(
            "UPDATE nodes SET newest_at = $1, closed_until = $2, missing = $3, memory_capacity_bytes = $4"
            " WHERE name = $5",
            whole,
        )
        for item in items.values():
            await ingesting.release(service.quarantine, item)
        for minute in itertools.count(3):
            if all(windows.of(node) for node in broken):
                break
            await tell(ingesting, nodes, 6 * minute, 6)  # a window is closed when a report begins the next one
            await asyncio.sleep(0.5)


async def test_history_that_is_broken_costs_its_rows_only(site: MakeSite) -> None:
    cases = {node_of(how): (table, how) for table, of_table in HISTORY.items() for how in of_table}
    rows = {node: f"{node}-p" if table == "pods" else f"{node}/boot-1/2" for node, (table, _) in cases.items()}
    nodes = ("good", *cases)
    ingesting = await _ingesting(site, nodes)
    for node, (table, how) in cases.items():
        await ingesting.sql.execute(HISTORY[table][how], node)
    windows = Windows()
    async with (
        ingesting.bus.replay(UsageWindowed, windows, after_sequence=0),
        ingesting.running(ingestion, SETTINGS) as service,
    ):
        await tell(ingesting, nodes, 4, 14, silent={node for node, (table, _) in cases.items() if table == "pods"})
        await eventually(lambda: all(windows.of(node) for node in nodes))
        items = [await ingesting.item(service.quarantine, table, rows[node]) for node, (table, _) in cases.items()]
        assert not service.quarantine.nodes
        for item in items:
            await ingesting.release(service.quarantine, item)


BLOCKS = {
    "good": "INSERT INTO agent_blocks VALUES ('good', 1, true, 'r', 'a', now())",
    "a reason that no event holds": "INSERT INTO agent_blocks VALUES ('why', 1, true, repeat('x', 1000), 'a', now())",
    "a name with a control character": "INSERT INTO agent_blocks VALUES (E'b\\x01d', 1, true, 'r', 'a', now())",
    "year 12000": "INSERT INTO agent_blocks VALUES ('late', 1, true, 'r', 'a', '12000-01-01')",
    "before all times": "INSERT INTO agent_blocks VALUES ('early', 1, true, 'r', 'a', '-infinity')",
}


async def test_blocks_that_are_broken_hide_no_other(site: MakeSite) -> None:
    """A time is bounded where it is read."""
    made = await site("ingestion")
    for statement in BLOCKS.values():
        await made.sql.execute(statement)
    announced: set[str] = set()

    async def note(event: Event[AgentBlockChanged]) -> None:
        announced.add(event.data.node)

    async with made.bus.watch(AgentBlockChanged, note), made.running(ingestion, SETTINGS) as service:
        while not {"good", "late", "early"} <= announced:
            await service.announce()  # it is every minute, and at first nothing is owned yet
            await asyncio.sleep(0.05)
        await eventually(lambda: len(service.quarantine.known()) == 2)
        assert {item.table for item in service.quarantine.known()} == {"agent_blocks"}
        assert announced == {"good", "late", "early"}
