"""Prediction with a broken row in each table that it loads: the others are served, and the row is released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from running import Site, eventually

from slackwater.events.peak_predicted import PeakPredicted
from slackwater.model.identifiers import partition_of
from slackwater.prediction import service as prediction
from slackwater.prediction.settings import PredictionSettings
from slackwater.testing.windows import described, window

MakeSite = Callable[[str], Awaitable[Site]]
WARM = {"cold_hours": 1, "young_hours": 0}
SETTINGS = PredictionSettings(
    cpu_settings=WARM, memory_settings=WARM, snapshot_seconds=0.2, check_seconds=0.05, reporting_seconds=0.02
)
NODES = {
    "published_windows": {
        "no amounts": "UPDATE published_windows SET amounts = '{NULL}' WHERE node = 'bad'",
        "amounts of amounts": "UPDATE published_windows SET amounts = '{{1,2},{3,4}}' WHERE node = 'bad'",
        "never": "UPDATE published_windows SET published_at = 'NaN' WHERE node = 'bad'",
        "year 10000": "UPDATE published_windows SET until_seconds = 253402300800 WHERE node = 'bad'",
    },
    "nodes": {
        "negative": "UPDATE nodes SET cpu_milli = -1 WHERE node = 'bad'",
        "beyond what adds up": "UPDATE nodes SET memory_bytes = 9223372036854775807 WHERE node = 'bad'",
    },
}
SNAPSHOTS = {
    "of the wrong length": "UPDATE snapshots SET body = substring(body FROM 1 FOR 20)",
    "of another program": "UPDATE snapshots SET version = 99",
    "from before the stream": "UPDATE snapshots SET position = -position",
    "empty": "UPDATE snapshots SET body = '', checksum = encode(sha256(''), 'hex')",
}
POLICIES = {"not an object": "[1]", "text": '"x"', "empty": "{}", "null spec": '{"metadata": 7, "spec": null}'}


class Peaks:
    def __init__(self) -> None:
        self.nodes: list[str] = []

    async def __call__(self, event: object) -> None:
        self.nodes.append(event.data.node)  # type: ignore[attr-defined] # an event of peaks

    def since(self, before: int, node: str) -> bool:
        return node in self.nodes[before:]


async def tell(site: Site, numbers: range) -> None:
    for number in numbers:
        site.clock.minutes = number + 1
        for node in ("good", "bad"):
            await site.bus.publish(window(node, number, {"p": 500}))


@pytest.fixture
async def predicting(site: MakeSite) -> Site:
    """Two nodes with a prediction each and a snapshot; the service has ended in good order."""
    made = await site("prediction")
    peaks = Peaks()
    async with made.bus.watch(PeakPredicted, peaks), made.running(prediction, SETTINGS):
        for node in ("good", "bad"):
            await made.bus.publish(described(node))
        await tell(made, range(3))
        await eventually(lambda: {"good", "bad"} <= set(peaks.nodes))
    return made


@pytest.mark.parametrize(("table", "how"), [(table, how) for table, cases in NODES.items() for how in cases])
async def test_a_row_of_a_node_costs_its_node_only(predicting: Site, table: str, how: str) -> None:
    whole = await predicting.sql.fetchrow(f"SELECT * FROM {table} WHERE node = 'bad'")  # noqa: S608 - ours
    await predicting.sql.execute(NODES[table][how])
    peaks = Peaks()
    async with predicting.bus.watch(PeakPredicted, peaks), predicting.running(prediction, SETTINGS) as service:
        item = await predicting.item(service.quarantine, table, "bad")
        assert item.node == "bad"
        before = len(peaks.nodes)
        await tell(predicting, range(3, 6))
        await eventually(lambda: peaks.since(before, "good"))
        assert not peaks.since(before, "bad")
        places = ", ".join(f"{name} = ${number}" for number, name in enumerate(dict(whole), 1))
        await predicting.sql.execute(f"UPDATE {table} SET {places} WHERE node = 'bad'", *whole.values())  # noqa: S608
        await predicting.release(service.quarantine, item)
        await tell(predicting, range(6, 9))
        await eventually(lambda: peaks.since(before, "bad"))


@pytest.mark.parametrize("how", SNAPSHOTS)
async def test_a_broken_snapshot_costs_a_replay(predicting: Site, how: str) -> None:
    await predicting.sql.execute(SNAPSHOTS[how])
    rows = await predicting.sql.fetch("SELECT partition, position FROM snapshots")
    name = next(f"{row['partition']}@{row['position']}" for row in rows if row["partition"] == partition_of("bad"))
    peaks = Peaks()
    async with predicting.bus.watch(PeakPredicted, peaks), predicting.running(prediction, SETTINGS) as service:
        item = await predicting.item(service.quarantine, "snapshots", name)
        before = len(peaks.nodes)
        await tell(predicting, range(3, 6))
        await eventually(lambda: peaks.since(before, "good") and peaks.since(before, "bad"))
        await predicting.release(service.quarantine, item)


@pytest.mark.parametrize("how", POLICIES)
@pytest.mark.parametrize("name", ["default", "edge"])
async def test_a_broken_policy_costs_itself_only(predicting: Site, how: str, name: str) -> None:
    await predicting.sql.execute(
        "INSERT INTO policies (name, generation, document, changed_at) VALUES ($1, 3, $2, '12000-01-01')"
        " ON CONFLICT (name) DO UPDATE SET document = excluded.document, changed_at = excluded.changed_at",
        name,
        POLICIES[how],
    )
    peaks = Peaks()
    async with predicting.bus.watch(PeakPredicted, peaks), predicting.running(prediction, SETTINGS) as service:
        item = await predicting.item(service.quarantine, "policies", name)
        before = len(peaks.nodes)
        await tell(predicting, range(3, 6))
        await eventually(lambda: peaks.since(before, "good"))
        await predicting.sql.execute("UPDATE policies SET document = NULL WHERE name = $1", name)
        await predicting.release(service.quarantine, item)
