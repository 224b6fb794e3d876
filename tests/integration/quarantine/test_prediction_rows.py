"""Prediction with a broken row in each table that it loads: the others are served, and the row is released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from running import Site, eventually, node_of
from tests.support.windows import described, window

from slackwater.events.peak_predicted import PeakPredicted
from slackwater.model.identifiers import partition_of
from slackwater.prediction import service as prediction
from slackwater.prediction.settings import PredictionSettings

MakeSite = Callable[[str], Awaitable[Site]]
WARM = {"cold_hours": 1, "young_hours": 0}
SETTINGS = PredictionSettings(
    cpu_settings=WARM, memory_settings=WARM, snapshot_seconds=0.2, check_seconds=0.05, reporting_seconds=0.02
)
NODES = {
    "published_windows": {
        "no amounts": "UPDATE published_windows SET amounts = '{NULL}' WHERE node = $1",
        "amounts of amounts": "UPDATE published_windows SET amounts = '{{1,2},{3,4}}' WHERE node = $1",
        "never": "UPDATE published_windows SET published_at = 'NaN' WHERE node = $1",
        "year 10000": "UPDATE published_windows SET until_seconds = 253402300800 WHERE node = $1",
    },
    "nodes": {
        "negative": "UPDATE nodes SET cpu_milli = -1 WHERE node = $1",
        "beyond what adds up": "UPDATE nodes SET memory_bytes = 9223372036854775807 WHERE node = $1",
    },
}
SNAPSHOTS = {
    "of the wrong length": "UPDATE snapshots SET body = substring(body FROM 1 FOR 20) WHERE partition = $1",
    "of another program": "UPDATE snapshots SET version = 99 WHERE partition = $1",
    "from before the stream": "UPDATE snapshots SET position = -position WHERE partition = $1",
    "empty": "UPDATE snapshots SET body = '', checksum = encode(sha256(''), 'hex') WHERE partition = $1",
}
POLICIES = {"not an object": "[1]", "text": '"x"', "empty": "{}", "null spec": '{"metadata": 7, "spec": null}'}


class Peaks:
    def __init__(self) -> None:
        self.nodes: list[str] = []

    async def __call__(self, event: object) -> None:
        self.nodes.append(event.data.node)  # type: ignore[attr-defined] # an event of peaks

    def since(self, before: int, node: str) -> bool:
        return node in self.nodes[before:]


async def tell(site: Site, nodes: Sequence[str], numbers: range) -> None:
    for number in numbers:
        site.clock.minutes = number + 1
        for node in nodes:
            await site.bus.publish(window(node, number, {"p": 500}))


async def _predicting(site: MakeSite, nodes: Sequence[str]) -> Site:
    """Nodes with a prediction each and a snapshot; the service has ended in good order."""
    made = await site("prediction")
    peaks = Peaks()
    async with made.bus.watch(PeakPredicted, peaks), made.running(prediction, SETTINGS):
        for node in nodes:
            await made.bus.publish(described(node))
        await tell(made, nodes, range(3))
        await eventually(lambda: set(nodes) <= set(peaks.nodes))
    return made


async def test_a_row_of_a_node_costs_its_node_only(site: MakeSite) -> None:
    cases = {node_of(how): (table, how) for table, of_table in NODES.items() for how in of_table}
    nodes = ("good", *cases)
    predicting = await _predicting(site, nodes)
    whole = {
        node: await predicting.sql.fetchrow(f"SELECT * FROM {table} WHERE node = $1", node)  # noqa: S608 - ours
        for node, (table, _) in cases.items()
    }
    for node, (table, how) in cases.items():
        await predicting.sql.execute(NODES[table][how], node)
    peaks = Peaks()
    async with predicting.bus.watch(PeakPredicted, peaks), predicting.running(prediction, SETTINGS) as service:
        items = {node: await predicting.item(service.quarantine, table, node) for node, (table, _) in cases.items()}
        assert {node: item.node for node, item in items.items()} == {node: node for node in cases}
        before = len(peaks.nodes)
        await tell(predicting, nodes, range(3, 6))
        await eventually(lambda: peaks.since(before, "good"))
        assert not any(peaks.since(before, node) for node in cases)
        for node, (table, _) in cases.items():
            row = dict(whole[node])
            places = ", ".join(f"{name} = ${number}" for number, name in enumerate(row, 1))
            await predicting.sql.execute(f"UPDATE {table} SET {places} WHERE node = '{node}'", *row.values())  # noqa: S608
            await predicting.release(service.quarantine, items[node])
        await tell(predicting, nodes, range(6, 9))
        await eventually(lambda: all(peaks.since(before, node) for node in cases))


async def test_a_broken_snapshot_costs_a_replay(site: MakeSite) -> None:
    broken = {node_of(how): statement for how, statement in SNAPSHOTS.items()}
    partitions = {node: partition_of(node) for node in ("good", *broken)}
    assert len(set(partitions.values())) == len(partitions), "a snapshot is of a partition"
    predicting = await _predicting(site, list(partitions))
    for node, statement in broken.items():
        await predicting.sql.execute(statement, partitions[node])
    positions = dict(await predicting.sql.fetch("SELECT partition, position FROM snapshots"))
    names = [f"{partitions[node]}@{positions[partitions[node]]}" for node in broken]
    peaks = Peaks()
    async with predicting.bus.watch(PeakPredicted, peaks), predicting.running(prediction, SETTINGS) as service:
        items = await predicting.items(service.quarantine, "snapshots", names)
        before = len(peaks.nodes)
        await tell(predicting, list(partitions), range(3, 6))
        await eventually(lambda: all(peaks.since(before, node) for node in partitions))
        for item in items.values():
            await predicting.release(service.quarantine, item)


PLANT = """INSERT INTO policies (name, generation, document, changed_at) VALUES ($1, 3, $2, '12000-01-01')
    ON CONFLICT (name) DO UPDATE SET document = excluded.document, changed_at = excluded.changed_at"""


async def test_broken_policies_cost_themselves_only(site: MakeSite) -> None:
    predicting = await _predicting(site, ("good",))
    await _costs_itself_only(predicting, {node_of(how): document for how, document in POLICIES.items()}, 3)


async def test_a_default_policy_that_is_broken_at_the_start_costs_itself_only(site: MakeSite) -> None:
    predicting = await _predicting(site, ("good",))
    for number, document in enumerate(POLICIES.values(), 1):
        await _costs_itself_only(predicting, {"default": document}, 3 * number)


async def _costs_itself_only(predicting: Site, policies: Mapping[str, str], first: int) -> None:
    await predicting.sql.executemany(PLANT, policies.items())
    peaks = Peaks()
    async with predicting.bus.watch(PeakPredicted, peaks), predicting.running(prediction, SETTINGS) as service:
        items = await predicting.items(service.quarantine, "policies", policies)
        before = len(peaks.nodes)
        await tell(predicting, ("good",), range(first, first + 3))
        await eventually(lambda: peaks.since(before, "good"))
        await predicting.sql.execute("UPDATE policies SET document = NULL WHERE name = ANY($1)", list(policies))
        for item in items.values():
            await predicting.release(service.quarantine, item)
