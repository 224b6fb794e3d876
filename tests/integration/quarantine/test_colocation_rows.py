"""Colocation with a broken row in each table that it loads: the others are served, and the row is released."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest
from running import Site, eventually, left_out, node_of
from tests.support.windows import START, described, window

from slackwater.colocation import service as colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.nodes import Liveness

MakeSite = Callable[[str], Awaitable[Site]]
SETTINGS = ColocationSettings(cpu_reclaim_threshold_percent=80, age_check_seconds=0.05, full_pass_seconds=0.1)
BREAKS = {
    "not a state": "UPDATE nodes SET facts = '[1]' WHERE node = $1",
    "a scalar": "UPDATE nodes SET facts = '7' WHERE node = $1",
    "a field is missing": "UPDATE nodes SET facts = facts - 'node' WHERE node = $1",
    "a type is wrong": """UPDATE nodes SET facts = jsonb_set(facts, '{capacity}', '"x"') WHERE node = $1""",
    "malformed JSON": "UPDATE nodes SET held = '{' WHERE node = $1",
    "not a number": """UPDATE nodes SET held = '{"peaks":{"p":{"peak":NaN}}}' WHERE node = $1""",
    "beyond 64 bits": """UPDATE nodes SET facts = jsonb_set(facts, '{window_end}', '1180591620717411303424')
        WHERE node = $1""",
    "beyond every float": """UPDATE nodes SET facts = jsonb_set(facts, '{window_end}', ('1' || repeat('0', 400))::jsonb)
        WHERE node = $1""",
    "year 10000": """UPDATE nodes SET facts = jsonb_set(facts, '{used_by,at}', '"10000-01-01T00:00:00Z"')
        WHERE node = $1""",
    "of another node": """UPDATE nodes SET facts = jsonb_set(facts, '{node}', '"good"') WHERE node = $1""",
}


@pytest.fixture
async def offering(site: MakeSite) -> Site:
    """Two nodes with an offer each; the service has ended in good order."""
    return await _offering(site, ("good", "bad"))


async def _offering(site: MakeSite, nodes: Sequence[str]) -> Site:
    made = await site("colocation")
    async with made.running(colocation, SETTINGS):
        for node in nodes:
            await made.bus.publish(described(node))
            await made.bus.publish(window(node, 0, {"p": 500}))
        await eventually(lambda: all(_offered(made, node) > 0 for node in nodes))
    return made


def _offered(site: Site, node: str) -> int:
    offers = [offer for offer in site.offers if offer.node == node]
    return offers[-1].batch.cpu_milli if offers else -1


async def test_a_state_that_is_broken_costs_its_node_only(site: MakeSite) -> None:
    broken = {node_of(how): statement for how, statement in BREAKS.items()}
    offering = await _offering(site, ("good", *broken))
    whole = await offering.sql.fetch("SELECT facts, held, node FROM nodes WHERE node != 'good'")
    for node, statement in broken.items():
        await offering.sql.execute(statement, node)
    async with offering.running(colocation, SETTINGS) as service:
        items = await offering.items(service.quarantine, "nodes", broken)
        assert {node: item.node for node, item in items.items()} == {node: node for node in broken}
        await eventually(lambda: not any(_offered(offering, node) for node in broken))
        offering.clock.minutes = 1
        before, without = len(offering.offers), left_out("colocation", "usage.windowed")
        for node in (*broken, "good"):
            await offering.bus.publish(window(node, 1, {"p": 2500}))
        await eventually(lambda: any(offer.node == "good" for offer in offering.offers[before:]))
        await eventually(lambda: left_out("colocation", "usage.windowed") >= without + len(broken))
        assert {node: _offered(offering, node) for node in broken} == dict.fromkeys(broken, 0)
        await offering.sql.executemany("UPDATE nodes SET facts = $1, held = $2 WHERE node = $3", whole)
        for item in items.values():
            await offering.release(service.quarantine, item)
        await eventually(lambda: all(_offered(offering, node) > 0 for node in broken))
    for node in broken:
        generations = [offer.generation for offer in offering.offers if offer.node == node]
        assert generations[-1] > max(generations[:-1]), node


async def test_a_description_published_during_quarantine_counts_after_the_release(offering: Site) -> None:
    whole = await offering.sql.fetchrow("SELECT * FROM nodes WHERE node = 'bad'")
    await offering.sql.execute(BREAKS["a type is wrong"], "bad")
    async with offering.running(colocation, SETTINGS) as service:
        item = await offering.item(service.quarantine, "nodes", "bad")
        before = left_out("colocation", "node.described")
        await offering.bus.publish(described("bad", cpu_milli=6000, number=1))
        lost = NodeLivenessChanged(
            node="bad",
            liveness=Liveness.LOST,
            previous=None,
            changed_at=START + timedelta(minutes=1),
            last_report_at=START,
        )
        await offering.bus.publish(event_of(lost, source="ingestion", time=lost.changed_at))
        await eventually(lambda: left_out("colocation", "node.described") > before)
        await offering.sql.execute(
            "UPDATE nodes SET facts = $1, held = $2 WHERE node = 'bad'", whole["facts"], whole["held"]
        )
        await offering.release(service.quarantine, item)
        await eventually(lambda: offering.offers[-1].node == "bad" and offering.offers[-1].degraded)
        facts = json.loads(await offering.sql.fetchval("SELECT facts FROM nodes WHERE node = 'bad'"))
    assert "6000" in json.dumps(facts)
    assert "lost" in str(offering.offers[-1].degraded)


async def test_a_node_that_is_released_broken_comes_back(offering: Site) -> None:
    await offering.sql.execute(BREAKS["a type is wrong"], "bad")
    async with offering.running(colocation, SETTINGS) as service:
        item = await offering.item(service.quarantine, "nodes", "bad")
        await service.quarantine.release(item.id)
        again = await offering.item(service.quarantine, "nodes", "bad")
        assert again.id == item.id
        await eventually(lambda: [told.released for told in offering.told] == [False, True, False])
    async with offering.running(colocation, SETTINGS) as service:
        assert service.quarantine.holds_node("bad")


DOCUMENTS = {
    "not an object": "[1]",
    "text": '"x"',
    "empty": "{}",
    "no spec": '{"apiVersion": "slackwater.io/v1alpha1", "kind": "ColocationStrategy", "metadata": {"name": "edge"}}',
    "metadata is no object": '{"apiVersion": "slackwater.io/v1alpha1", "metadata": 5, "spec": 7}',
    "beyond every number": '{"metadata": {"name": "edge"}, "spec": {"cpuReclaimThresholdPercent": 1e999}}',
}


PLANT = """INSERT INTO strategies (name, generation, document, changed_at) VALUES ($1, 3, $2, '12000-01-01')
    ON CONFLICT (name) DO UPDATE SET document = excluded.document, changed_at = excluded.changed_at"""


async def _offer_anew(site: Site, minute: int) -> None:
    """See that the good node, which has a seventh less to offer every minute, publishes an offer."""
    site.clock.minutes = minute
    before = len(site.offers)
    await site.bus.publish(window("good", minute, {"p": round(6100 - 4100 * 0.85**minute)}))
    await eventually(lambda: any(offer.node == "good" for offer in site.offers[before:]))


async def test_documents_that_are_broken_cost_themselves_only(offering: Site) -> None:
    names = {node_of(how): document for how, document in DOCUMENTS.items()}
    await offering.sql.executemany(PLANT, names.items())
    async with offering.running(colocation, SETTINGS) as service:
        items = await offering.items(service.quarantine, "strategies", names)
        await _offer_anew(offering, 1)
        await offering.sql.execute("UPDATE strategies SET document = NULL WHERE name = ANY($1)", list(names))
        for item in items.values():
            await offering.release(service.quarantine, item)
        await _offer_anew(offering, 2)
        assert not service.quarantine.nodes, "the row's time, far in the future, is no input's time"


async def test_a_default_document_that_is_broken_at_the_start_costs_itself_only(offering: Site) -> None:
    whole = await offering.sql.fetchval("SELECT document FROM strategies WHERE name = 'default'")
    for number, document in enumerate(DOCUMENTS.values()):
        await offering.sql.execute(PLANT, "default", document)
        async with offering.running(colocation, SETTINGS) as service:
            item = await offering.item(service.quarantine, "strategies", "default")
            await _offer_anew(offering, 2 * number + 1)
            await offering.sql.execute("UPDATE strategies SET document = $1 WHERE name = 'default'", whole)
            await offering.release(service.quarantine, item)
            await _offer_anew(offering, 2 * number + 2)
            assert not service.quarantine.nodes, "the row's time, far in the future, is no input's time"
