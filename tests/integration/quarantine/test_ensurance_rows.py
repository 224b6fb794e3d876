"""Ensurance with a broken row in each table that it loads: the others are guarded, and the row is released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from running import Site, eventually, left_out, node_of
from tests.support.windows import described

from slackwater.decisions.reasons import Mode
from slackwater.ensurance import service as ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.documents_in_force import KINDS
from slackwater.events.intent_declared import IntentDeclared
from slackwater.resources.kinds.node_qos import NODE_QOS

MakeSite = Callable[[str], Awaitable[Site]]
SETTINGS = EnsuranceSettings(lease_seconds=3)
STATES = {
    "not an object": "UPDATE guarded_nodes SET document = '[1]' WHERE node = $1",
    "no state": "UPDATE guarded_nodes SET document = document - 'state' WHERE node = $1",
    "a type is wrong": """UPDATE guarded_nodes SET document = jsonb_set(document, '{state}', '"x"')
        WHERE node = $1""",
    "beyond 64 bits": """UPDATE guarded_nodes SET document =
        jsonb_set(document, '{capacity_milli}', '1180591620717411303424') WHERE node = $1""",
    "beyond every float": """UPDATE guarded_nodes SET document =
        jsonb_set(document, '{capacity_milli}', ('1' || repeat('0', 400))::jsonb) WHERE node = $1""",
    "year 10000": """UPDATE guarded_nodes SET document = jsonb_set(document, '{last_report}',
        '{"boot_epoch": "b", "sequence": 1, "sampled_at": "10000-01-01T00:00:00Z"}') WHERE node = $1""",
    "year 9999": """UPDATE guarded_nodes SET document = jsonb_set(document, '{last_report}',
        '{"boot_epoch": "b", "sequence": 1, "sampled_at": "9999-12-31T23:59:59Z"}') WHERE node = $1""",
    "of another node": """UPDATE guarded_nodes SET document = jsonb_set(document, '{node}', '"good"')
        WHERE node = $1""",
    "of another version": "UPDATE guarded_nodes SET version = version + 1 WHERE node = $1",
}
DOCUMENTS = {
    "not an object": "[1]",
    "text": '"x"',
    "empty": "{}",
    "no spec": '{"metadata": {"name": "edge"}}',
    "other types": '{"metadata": 5, "spec": [7]}',
}


class Intents:
    def __init__(self) -> None:
        self.told: list[IntentDeclared] = []

    async def __call__(self, event: Any) -> None:
        self.told.append(event.data)

    def last(self, node: str) -> IntentDeclared | None:
        return next((one for one in reversed(self.told) if one.node == node), None)


@pytest.fixture
async def guarding(site: MakeSite) -> Site:
    """Two nodes with an intent each; the service has ended in good order."""
    return await _guarding(site, ("good", "bad"))


async def _guarding(site: MakeSite, nodes: Sequence[str]) -> Site:
    made = await site("ensurance")
    intents = Intents()
    async with made.bus.watch(IntentDeclared, intents), made.running(ensurance, SETTINGS):
        for node in nodes:
            await made.bus.publish(described(node))
        await eventually(lambda: all(intents.last(node) for node in nodes))
    return made


async def test_a_state_that_is_broken_costs_its_node_only(site: MakeSite) -> None:
    broken = {node_of(how): statement for how, statement in STATES.items()}
    guarding = await _guarding(site, ("good", *broken))
    whole = await guarding.sql.fetch("SELECT document, version, node FROM guarded_nodes WHERE node != 'good'")
    for node, statement in broken.items():
        await guarding.sql.execute(statement, node)
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        items = await guarding.items(service.quarantine, "guarded_nodes", broken)
        assert {node: item.node for node, item in items.items()} == {node: node for node in broken}
        for node in broken:
            let_go: IntentDeclared = await eventually(
                lambda node=node: (last := intents.last(node)) and last.lease_seconds == 0 and last
            )
            assert (let_go.throttles, let_go.evictions) == ((), ())
        before, without = len(intents.told), left_out("ensurance", "node.described")
        for node in (*broken, "good"):
            await guarding.bus.publish(described(node, cpu_milli=6000, number=1))
        await eventually(lambda: "good" in [one.node for one in intents.told[before:]])
        await eventually(lambda: left_out("ensurance", "node.described") >= without + len(broken))
        assert [(one.node, one.lease_seconds) for one in intents.told[before:] if one.node in broken] == []
        await guarding.sql.executemany("UPDATE guarded_nodes SET document = $1, version = $2 WHERE node = $3", whole)
        for node, item in items.items():
            await guarding.release(service.quarantine, item)
            await eventually(lambda node=node: (last := intents.last(node)) and last.lease_seconds > 0)
            guarded = service.cache.node(node)
            assert guarded is not None
            assert guarded.capacity_milli == 6000


async def test_a_node_that_a_defect_set_aside_has_leases_again_after_a_restart(guarding: Site) -> None:
    async with guarding.running(ensurance, SETTINGS) as service:
        service.quarantine.note("guarded_nodes", "bad", TypeError("half an upgrade"), node="bad")
        item = await guarding.item(service.quarantine, "guarded_nodes", "bad")
        await service.quarantine.work()
        assert service.quarantine.holds_node("bad"), "the same process does not retry it"
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        await eventually(lambda: service.cache.node("bad"))
        await eventually(lambda: (last := intents.last("bad")) and last.lease_seconds > 0)
        await eventually(lambda: any(told.id == item.id and told.released for told in guarding.told))
        assert not await service.quarantine.items()


async def test_a_release_passes_over_a_last_description_that_is_refused(guarding: Site) -> None:
    whole = await guarding.sql.fetchval("SELECT document FROM guarded_nodes WHERE node = 'bad'")
    await guarding.sql.execute(STATES["not an object"], "bad")
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, "guarded_nodes", "bad")
        await guarding.bus.publish(described("bad", cpu_milli=0, number=1))
        await guarding.sql.execute("UPDATE guarded_nodes SET document = $1 WHERE node = 'bad'", whole)
        await guarding.release(service.quarantine, item)
        await eventually(lambda: (last := intents.last("bad")) and last.lease_seconds > 0)
        guarded = service.cache.node("bad")
        assert guarded is not None
        assert guarded.capacity_milli == 8000


async def test_documents_that_are_broken_cost_themselves_only(guarding: Site) -> None:
    names = {node_of(how): document for how, document in DOCUMENTS.items()}
    for kind in KINDS:
        await guarding.sql.executemany(
            f"INSERT INTO {kind.table} (name, generation, document, changed_at) VALUES ($1, 3, $2, '12000-01-01')",  # noqa: S608
            names.items(),
        )
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        items = {kind.table: await guarding.items(service.quarantine, kind.table, names) for kind in KINDS}
        before = len(intents.told)
        await guarding.bus.publish(described("good", number=1))
        await eventually(lambda: "good" in [one.node for one in intents.told[before:]])
        for table, of_table in items.items():
            await guarding.sql.execute(f"UPDATE {table} SET document = NULL WHERE name = ANY($1)", list(names))  # noqa: S608
            for item in of_table.values():
                await guarding.release(service.quarantine, item)


async def test_a_broken_policy_of_the_cluster_is_stood_in_for_and_written_over(guarding: Site) -> None:
    for number, document in enumerate(DOCUMENTS.values(), 1):
        await _is_written_over(guarding, document, number)


async def _is_written_over(guarding: Site, document: str, number: int) -> None:
    generation = 10 * number + 7
    await guarding.sql.execute(
        "UPDATE node_qos SET document = $1, generation = $2 WHERE name = 'default'", document, generation
    )
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, "node_qos", "default")
        before = len(intents.told)
        await guarding.bus.publish(described("good", number=number))
        await eventually(lambda: "good" in [one.node for one in intents.told[before:]])
        changes = service.changes[NODE_QOS]
        present = await changes.read("default")
        assert present.metadata.generation == generation
        wanted = present.model_copy(update={"spec": present.spec.model_copy(update={"mode": Mode.OBSERVE})})
        done = await changes.put(wanted)
        assert done.document is not None
        assert done.document.metadata.generation == generation + 1
        await eventually(lambda: guarding.was_released(item))
        await eventually(lambda: not service.quarantine.holds("node_qos", "default"))


OWN = "OWN"
"""Replaced by the name of the pool."""
STANDINGS = {
    "not an object": "[1]",
    "empty": "{}",
    "year 10000": '{"pool": "OWN", "version": 1, "state": {"stepped_back_at": "10000-01-01T00:00:00Z"}}',
    "year 9999": '{"pool": "OWN", "version": 1, "state": {"stepped_back_at": "9999-12-31T23:59:59Z"}}',
    "of another pool": '{"pool": "edge", "version": 1}',
}


async def test_a_broken_standing_costs_its_pool_the_evictions(guarding: Site) -> None:
    pools = {node_of(how): standing for how, standing in STANDINGS.items()}
    await guarding.sql.executemany(
        "INSERT INTO pool_autonomy (pool, version, document) VALUES ($1, 1, $2)",
        [(pool, standing.replace(f'"{OWN}"', f'"{pool}"')) for pool, standing in pools.items()],
    )
    await guarding.sql.executemany(
        """INSERT INTO autonomies (name, generation, document) VALUES ($1, 1,
        jsonb_build_object('apiVersion', 'slackwater.io/v1alpha1', 'kind', 'Autonomy', 'metadata',
        jsonb_build_object('name', $1::text), 'spec', jsonb_build_object('nodePool', $1::text, 'mode', 'evict')))""",
        [(pool,) for pool in pools],
    )
    async with guarding.running(ensurance, SETTINGS) as service:
        items = await guarding.items(service.quarantine, "pool_autonomy", pools)
        assert await _modes(service) == dict.fromkeys(pools, (Mode.EVICT, Mode.THROTTLE))
        await guarding.sql.execute(
            "UPDATE pool_autonomy SET document = jsonb_build_object('pool', pool, 'version', 1) WHERE pool = ANY($1)",
            list(pools),
        )
        for item in items.values():
            await guarding.release(service.quarantine, item)
        assert await _modes(service) == dict.fromkeys(pools, (Mode.EVICT, Mode.EVICT))


async def _modes(service: Any) -> dict[str, tuple[Mode, Mode]]:
    """By pool: what its document allows, and what is in force."""
    pools = [pool for pool in await service.pools.read() if pool.policy.mode is Mode.EVICT]
    return {pool.pool: (pool.policy.mode, pool.mode) for pool in pools}
