"""Events and records of strategies: each document in force, and since when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from strategy_scene import OWN, Replica
from strategy_scene import strategy as document
from tests.support.windows import START

from slackwater.colocation.usecases.colocation_strategy import nodes_of
from slackwater.events.strategy_followed import StrategyFollowed

HOUR = timedelta(hours=1)


def told(here: Replica) -> dict[str, StrategyFollowed]:
    """The last word about each."""
    followed = [event.data for event in here.store.outbox if isinstance(event.data, StrategyFollowed)]
    return {one.document: one for one in followed}


async def accepted(here: Replica, name: str, hours: int) -> None:
    """As the store would have it: since when the stored generation of a document is there."""
    here.documents.rows[name] = replace(here.documents.rows[name], changed_at=START - hours * HOUR)
    here.in_force._found = replace(here.in_force.now, values={})
    await here.in_force.catch_up()


async def test_every_document_is_published_as_it_is_in_force() -> None:
    here = await Replica().open()
    await here.change.put(document("web", nodePool="www", precedence=7, cpuReclaimThresholdPercent=40), by="mara")
    await accepted(here, "web", 2)
    await here.follow()
    web, cluster = told(here)["web"], told(here)["default"]
    assert (web.generation, web.observed_generation, web.problem, web.gone) == (1, 1, "", False)
    assert (web.nodes, web.precedence, web.changed_by) == ("pool www", 7, "mara")
    assert web.accepted_at == START - 2 * HOUR
    assert web.fields == {"cpuReclaimThresholdPercent": 40}
    assert web.effective == {**cluster.effective, "cpuReclaimThresholdPercent": 40}
    assert (cluster.nodes, cluster.fields.items() <= cluster.effective.items()) == ("every node", True)
    assert StrategyFollowed.model_validate_json(web.model_dump_json()) == web


async def test_an_unusable_document_is_published_with_the_generation_still_in_force() -> None:
    here = await Replica().open()
    await here.change.put(document("web", cpuReclaimThresholdPercent=40), by="mara")
    await accepted(here, "web", 2)
    row = here.documents.rows["web"]
    broken = {**dict(row.document or {}), "spec": {"cpuReclaimThresholdPercent": -1}}
    here.documents.rows["web"] = replace(row, generation=2, document=broken, changed_at=START)
    await here.in_force.catch_up()
    await here.follow()
    web = told(here)["web"]
    assert (web.generation, web.observed_generation, web.accepted_at) == (2, 1, START - 2 * HOUR)
    assert "cpuReclaimThresholdPercent" in web.problem
    assert web.fields == {"cpuReclaimThresholdPercent": 40}


async def test_a_deleted_document_is_published_as_deleted() -> None:
    here = await Replica().open()
    await here.change.put(document("web", cpuReclaimThresholdPercent=40), by="mara")
    await here.change.delete("web")
    await here.follow()
    assert (told(here)["web"].gone, told(here)["web"].generation) == (True, 2)


def test_the_nodes_of_a_document_are_described_in_text() -> None:
    labels = {"matchLabels": {"role": "night"}, "matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    assert nodes_of(document("default")) == "every node"
    assert nodes_of(document("web")) == "pool web"
    assert nodes_of(document("x", nodeSelector=labels)) == "role=night; gpu Exists"
    assert nodes_of(document("x", nodeSelector={})) == "every node"


async def test_what_a_strategy_says_in_a_record_is_as_old_as_the_youngest_document_behind_it() -> None:
    here = await Replica().open()
    await accepted(here, "default", 5)
    await here.node("n")
    [first] = [one for one in here.records("n") if one.subject == "batch-cpu"][-1:]
    times = {each.name: each.observed_at for each in first.inputs}
    assert times["reclaim_threshold"] == times["reserved_by_strategy"] == START - 5 * HOUR
    await here.change.put(document("default", cpuReclaimThresholdPercent=30), by="mara")
    await accepted(here, "default", 3)
    await here.follow()
    last = [one for one in here.records("n") if one.subject == "batch-cpu"][-1]
    assert {each.name: each.observed_at for each in last.inputs}["reclaim_threshold"] == START - 3 * HOUR
    assert last.id != first.id


async def test_words_of_the_node_itself_are_as_old_as_its_description() -> None:
    here = await Replica().open()
    await accepted(here, "default", 5)
    await here.node("n", annotations={OWN: '{"cpuReclaimThresholdPercent": 30}'})
    last = [one for one in here.records("n") if one.subject == "batch-cpu"][-1]
    [one] = [each for each in last.inputs if each.name == "reclaim_threshold"]
    assert (one.value, one.observed_at) == (30, here.store.states["n"].described_by.at)  # type: ignore[union-attr]  # it was
