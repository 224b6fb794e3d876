"""Ensurance with a broken row in each table that it loads: the others are guarded, and the row is released."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from running import Site, eventually, left_out

from slackwater.decisions.reasons import Mode
from slackwater.ensurance import service as ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.documents_in_force import KINDS
from slackwater.events.intent_declared import IntentDeclared
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.testing.windows import described

MakeSite = Callable[[str], Awaitable[Site]]
SETTINGS = EnsuranceSettings(lease_seconds=3)
STATES = {
    "not an object": "UPDATE guarded_nodes SET document = '[1]' WHERE node = 'bad'",
    "no state": "UPDATE guarded_nodes SET document = document - 'state' WHERE node = 'bad'",
    "a type is wrong": """UPDATE guarded_nodes SET document = jsonb_set(document, '{state}', '"x"')
        WHERE node = 'bad'""",
    "beyond 64 bits": """UPDATE guarded_nodes SET document =
        jsonb_set(document, '{capacity_milli}', '1180591620717411303424') WHERE node = 'bad'""",
    "beyond every float": """UPDATE guarded_nodes SET document =
        jsonb_set(document, '{capacity_milli}', ('1' || repeat('0', 400))::jsonb) WHERE node = 'bad'""",
    "year 10000": """UPDATE guarded_nodes SET document = jsonb_set(document, '{last_report}',
        '{"boot_epoch": "b", "sequence": 1, "sampled_at": "10000-01-01T00:00:00Z"}') WHERE node = 'bad'""",
    "year 9999": """UPDATE guarded_nodes SET document = jsonb_set(document, '{last_report}',
        '{"boot_epoch": "b", "sequence": 1, "sampled_at": "9999-12-31T23:59:59Z"}') WHERE node = 'bad'""",
    "of another node": """UPDATE guarded_nodes SET document = jsonb_set(document, '{node}', '"good"')
        WHERE node = 'bad'""",
    "of another version": "UPDATE guarded_nodes SET version = version + 1 WHERE node = 'bad'",
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
    made = await site("ensurance")
    intents = Intents()
    async with made.bus.watch(IntentDeclared, intents), made.running(ensurance, SETTINGS):
        for node in ("good", "bad"):
            await made.bus.publish(described(node))
        await eventually(lambda: intents.last("good") and intents.last("bad"))
    return made


@pytest.mark.parametrize("how", STATES)
async def test_a_state_that_is_broken_costs_its_node_only(guarding: Site, how: str) -> None:
    whole = await guarding.sql.fetchrow("SELECT * FROM guarded_nodes WHERE node = 'bad'")
    await guarding.sql.execute(STATES[how])
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, "guarded_nodes", "bad")
        assert item.node == "bad"
        let_go: IntentDeclared = await eventually(
            lambda: (last := intents.last("bad")) and last.lease_seconds == 0 and last
        )
        assert (let_go.throttles, let_go.evictions) == ((), ())
        before = len(intents.told)
        for node in ("bad", "good"):
            await guarding.bus.publish(described(node, cpu_milli=6000, number=1))
        await eventually(lambda: "good" in [one.node for one in intents.told[before:]])
        await eventually(lambda: left_out("ensurance", "node.described"))
        assert [one.lease_seconds for one in intents.told[before:] if one.node == "bad"] == []
        await guarding.sql.execute(
            "UPDATE guarded_nodes SET document = $1, version = $2 WHERE node = 'bad'",
            whole["document"],
            whole["version"],
        )
        await guarding.release(service.quarantine, item)
        await eventually(lambda: (last := intents.last("bad")) and last.lease_seconds > 0)
        guarded = service.book.node("bad")
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
        await eventually(lambda: service.book.node("bad"))
        await eventually(lambda: (last := intents.last("bad")) and last.lease_seconds > 0)
        await eventually(lambda: any(told.id == item.id and told.released for told in guarding.told))
        assert not await service.quarantine.items()


async def test_a_release_passes_over_a_last_description_that_is_refused(guarding: Site) -> None:
    whole = await guarding.sql.fetchval("SELECT document FROM guarded_nodes WHERE node = 'bad'")
    await guarding.sql.execute(STATES["not an object"])
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, "guarded_nodes", "bad")
        await guarding.bus.publish(described("bad", cpu_milli=0, number=1))
        await guarding.sql.execute("UPDATE guarded_nodes SET document = $1 WHERE node = 'bad'", whole)
        await guarding.release(service.quarantine, item)
        await eventually(lambda: (last := intents.last("bad")) and last.lease_seconds > 0)
        guarded = service.book.node("bad")
        assert guarded is not None
        assert guarded.capacity_milli == 8000


@pytest.mark.parametrize("how", DOCUMENTS)
@pytest.mark.parametrize("table", [kind.table for kind in KINDS])
async def test_a_document_that_is_broken_costs_itself_only(guarding: Site, table: str, how: str) -> None:
    await guarding.sql.execute(
        f"INSERT INTO {table} (name, generation, document, changed_at) VALUES ('edge', 3, $1, '12000-01-01')",  # noqa: S608
        DOCUMENTS[how],
    )
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, table, "edge")
        before = len(intents.told)
        await guarding.bus.publish(described("good", number=1))
        await eventually(lambda: "good" in [one.node for one in intents.told[before:]])
        await guarding.sql.execute(f"UPDATE {table} SET document = NULL")  # noqa: S608
        await guarding.release(service.quarantine, item)


@pytest.mark.parametrize("how", DOCUMENTS)
async def test_a_broken_policy_of_the_cluster_is_stood_in_for_and_written_over(guarding: Site, how: str) -> None:
    await guarding.sql.execute(
        "UPDATE node_qos SET document = $1, generation = 7 WHERE name = 'default'", DOCUMENTS[how]
    )
    intents = Intents()
    async with guarding.bus.watch(IntentDeclared, intents), guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, "node_qos", "default")
        before = len(intents.told)
        await guarding.bus.publish(described("good", number=1))
        await eventually(lambda: "good" in [one.node for one in intents.told[before:]])
        changes = service.changes[NODE_QOS]
        present = await changes.read("default")
        assert present.metadata.generation == 7
        wanted = present.model_copy(update={"spec": present.spec.model_copy(update={"mode": Mode.OBSERVE})})
        done = await changes.put(wanted)
        assert done.document is not None
        assert done.document.metadata.generation == 8
        await eventually(lambda: any(told.id == item.id and told.released for told in guarding.told))
        await eventually(lambda: not service.quarantine.holds("node_qos", "default"))


STANDINGS = {
    "not an object": "[1]",
    "empty": "{}",
    "year 10000": '{"pool": "default", "version": 1, "state": {"stepped_back_at": "10000-01-01T00:00:00Z"}}',
    "year 9999": '{"pool": "default", "version": 1, "state": {"stepped_back_at": "9999-12-31T23:59:59Z"}}',
    "of another pool": '{"pool": "edge", "version": 1}',
}


@pytest.mark.parametrize("how", STANDINGS)
async def test_a_broken_standing_costs_its_pool_the_evictions(guarding: Site, how: str) -> None:
    await guarding.sql.execute(
        "INSERT INTO pool_autonomy (pool, version, document) VALUES ('default', 1, $1)", STANDINGS[how]
    )
    await guarding.sql.execute(
        """INSERT INTO autonomies (name, generation, document) VALUES ('all', 1,
        '{"apiVersion": "slackwater.io/v1alpha1",
        "kind": "Autonomy", "metadata": {"name": "all"}, "spec": {"nodePool": "default", "mode": "evict"}}')"""
    )
    async with guarding.running(ensurance, SETTINGS) as service:
        item = await guarding.item(service.quarantine, "pool_autonomy", "default")
        (pool,) = [one for one in await service.pools.read() if one.pool == "default"]
        assert (pool.policy.mode, pool.mode) == (Mode.EVICT, Mode.THROTTLE)
        await guarding.sql.execute("""UPDATE pool_autonomy SET document = '{"pool": "default", "version": 1}'""")
        await guarding.release(service.quarantine, item)
        (pool,) = [one for one in await service.pools.read() if one.pool == "default"]
        assert pool.mode is Mode.EVICT
