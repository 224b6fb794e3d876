"""Colocation with a broken row in each table that it loads: the others are served, and the row is released."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from running import Site, eventually, left_out

from slackwater.colocation import service as colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.nodes import Liveness
from slackwater.testing.windows import START, described, window

MakeSite = Callable[[str], Awaitable[Site]]
SETTINGS = ColocationSettings(cpu_reclaim_threshold_percent=80, age_check_seconds=0.05, full_pass_seconds=0.1)
BREAKS = {
    "not a state": "UPDATE nodes SET facts = '[1]' WHERE node = 'bad'",
    "a scalar": "UPDATE nodes SET facts = '7' WHERE node = 'bad'",
    "a field is missing": "UPDATE nodes SET facts = facts - 'node' WHERE node = 'bad'",
    "a type is wrong": """UPDATE nodes SET facts = jsonb_set(facts, '{capacity}', '"x"') WHERE node = 'bad'""",
    "malformed JSON": "UPDATE nodes SET held = '{' WHERE node = 'bad'",
    "not a number": """UPDATE nodes SET held = '{"peaks":{"p":{"peak":NaN}}}' WHERE node = 'bad'""",
    "beyond 64 bits": """UPDATE nodes SET facts = jsonb_set(facts, '{window_end}', '1180591620717411303424')
        WHERE node = 'bad'""",
    "beyond every float": """UPDATE nodes SET facts = jsonb_set(facts, '{window_end}', ('1' || repeat('0', 400))::jsonb)
        WHERE node = 'bad'""",
    "year 10000": """UPDATE nodes SET facts = jsonb_set(facts, '{used_by,at}', '"10000-01-01T00:00:00Z"')
        WHERE node = 'bad'""",
    "of another node": """UPDATE nodes SET facts = jsonb_set(facts, '{node}', '"good"') WHERE node = 'bad'""",
}


@pytest.fixture
async def offering(site: MakeSite) -> Site:
    """Two nodes with an offer each; the service has ended in good order."""
    made = await site("colocation")
    async with made.running(colocation, SETTINGS):
        for node in ("good", "bad"):
            await made.bus.publish(described(node))
            await made.bus.publish(window(node, 0, {"p": 500}))
        for node in ("good", "bad"):
            await eventually(lambda node=node: _offered(made, node) > 0)  # type: ignore[misc] # bound now
    return made


def _offered(site: Site, node: str) -> int:
    offers = [offer for offer in site.offers if offer.node == node]
    return offers[-1].batch.cpu_milli if offers else -1


@pytest.mark.parametrize("how", BREAKS)
async def test_a_state_that_is_broken_costs_its_node_only(offering: Site, how: str) -> None:
    whole = await offering.sql.fetchrow("SELECT * FROM nodes WHERE node = 'bad'")
    await offering.sql.execute(BREAKS[how])
    async with offering.running(colocation, SETTINGS) as service:
        item = await offering.item(service.quarantine, "nodes", "bad")
        assert item.node == "bad"
        await eventually(lambda: _offered(offering, "bad") == 0)
        offering.clock.minutes = 1
        before = len(offering.offers)
        for node in ("bad", "good"):
            await offering.bus.publish(window(node, 1, {"p": 2500}))
        await eventually(lambda: any(offer.node == "good" for offer in offering.offers[before:]))
        assert _offered(offering, "bad") == 0
        await offering.sql.execute(
            "UPDATE nodes SET facts = $1, held = $2 WHERE node = 'bad'", whole["facts"], whole["held"]
        )
        await offering.release(service.quarantine, item)
        await eventually(lambda: _offered(offering, "bad") > 0)
    generations = [offer.generation for offer in offering.offers if offer.node == "bad"]
    assert generations[-1] > max(generations[:-1])


async def test_a_description_published_during_quarantine_counts_after_the_release(offering: Site) -> None:
    whole = await offering.sql.fetchrow("SELECT * FROM nodes WHERE node = 'bad'")
    await offering.sql.execute(BREAKS["a type is wrong"])
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
    await offering.sql.execute(BREAKS["a type is wrong"])
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


@pytest.mark.parametrize("how", DOCUMENTS)
@pytest.mark.parametrize("name", ["edge", "default"])
async def test_a_document_that_is_broken_costs_itself_only(offering: Site, how: str, name: str) -> None:
    whole = await offering.sql.fetchval("SELECT document FROM strategies WHERE name = 'default'")
    await offering.sql.execute(
        "INSERT INTO strategies (name, generation, document, changed_at) VALUES ($1, 3, $2, '12000-01-01')"
        " ON CONFLICT (name) DO UPDATE SET document = excluded.document, changed_at = excluded.changed_at",
        name,
        DOCUMENTS[how],
    )
    async with offering.running(colocation, SETTINGS) as service:
        item = await offering.item(service.quarantine, "strategies", name)
        offering.clock.minutes = 1
        before = len(offering.offers)
        await offering.bus.publish(window("good", 1, {"p": 2500}))
        await eventually(lambda: any(offer.node == "good" for offer in offering.offers[before:]))
        if name == "edge":
            await offering.sql.execute("UPDATE strategies SET document = NULL WHERE name = $1", name)
        else:
            await offering.sql.execute("UPDATE strategies SET document = $2 WHERE name = $1", name, whole)
        await offering.release(service.quarantine, item)
        offering.clock.minutes = 2
        before = len(offering.offers)
        await offering.bus.publish(window("good", 2, {"p": 4500}))
        await eventually(lambda: any(offer.node == "good" for offer in offering.offers[before:]))
        assert not service.quarantine.nodes, "the row's time, far in the future, is no input's time"
