"""ColocationStrategy documents: their fields, refusals, the nodes that follow each, and bad ones."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from strategy_scene import OWN, Replica, document, strategy
from tests.support.resources import MemoryResourceStore

from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases import follow_strategies, strategy_set
from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy, first_document
from slackwater.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.quantities import Resources
from slackwater.offers.document import DEFAULTS, FIELDS
from slackwater.offers.node import NodeState
from slackwater.offers.strategy_layers import NodeOverrides
from slackwater.resources.selectors import Selector
from slackwater.resources.store import StoredResource


def test_a_document_names_its_nodes() -> None:
    assert strategy("default").selector() is None
    assert strategy("gold").selector() == Selector({"slackwater.io/node-pool": "gold"})
    assert strategy("gold", nodePool="Ost.1").selector() == Selector({"slackwater.io/node-pool": "Ost.1"})
    wanted = {"matchLabels": {"disk": "ssd"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}
    assert strategy("gold", nodeSelector=wanted).selector() == Selector({"disk": "ssd"}, (("a", "In", ("x",)),))
    assert strategy("gold", nodeSelector={}).selector() == Selector()


def test_every_field_with_its_default_can_be_written_and_is_kept() -> None:
    spec = {name: list(value) if isinstance(value, tuple) else value for name, value in DEFAULTS.items()}
    found = strategy("default", **spec)
    assert found.stored()["spec"] == spec
    assert ColocationStrategy.parse(found.stored()) == found


def test_a_null_is_as_if_it_was_not_written() -> None:
    assert strategy("default", riseWindows=None).stored()["spec"] == {}


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        (
            "default",
            {"cpuReclaimThresholdPercent": -1},
            "cpuReclaimThresholdPercent: -1 is not allowed; a whole",
        ),
        ("gold", {"midCPUThresholdPercent": 101}, r"midCPUThresholdPercent: 101 .* from 0 to 100"),
        ("gold", {"cpuReclaimThresholdpercent": 1}, "no such field; did you mean cpuReclaimThresholdPercent"),
        ("gold", {"cpuReclaimTreshold": 1}, "there is no such field; did you mean cpuReclaimThresholdPercent"),
        ("gold", {"qqq": 1}, "qqq: there is no such field"),
        ("gold", {"nodePool": "a", "nodeSelector": {}}, "leave one of them out"),
        ("default", {"nodePool": "a"}, "is for every node"),
        ("default", {"precedence": 1}, "is for every node"),
        ("gold", {"precedence": 1001}, "precedence"),
        ("gold", {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}, "at least one"),
        ("gold", {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "operator"),
        ("gold", {"nodeSelector": {"matchLabel": {}}}, "matchLabel"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(name: str, spec: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        strategy(name, **spec)


def test_a_refusal_names_the_field_and_the_value_alone() -> None:
    with pytest.raises(InvalidInput) as caught:
        strategy("default", riseWindows=0, enable=True)
    assert caught.value.field == "spec.riseWindows"
    assert caught.value.message.startswith("spec.riseWindows: riseWindows: 0 is not allowed; a whole number from 1")
    assert "enable" not in caught.value.message


def test_the_schema_has_every_field_with_default_and_range() -> None:
    schema = ColocationStrategy.model_json_schema(mode="validation")["$defs"]["ColocationStrategySpec"]
    assert schema["additionalProperties"] is False
    assert schema["properties"].keys() == {*FIELDS, "nodePool", "nodeSelector", "precedence"}
    assert schema["properties"]["midCPUThresholdPercent"]["anyOf"][0] == {
        "type": "integer", "minimum": 0, "maximum": 100,
    }  # fmt: skip
    assert "default 60" in schema["properties"]["cpuReclaimThresholdPercent"]["description"]
    assert all("type" in schema["properties"][name]["anyOf"][0] for name in FIELDS)


def test_the_first_document_is_what_the_settings_say_without_what_no_document_can() -> None:
    base = ColocationSettings(decay_from_seconds=0.5, decay_to_seconds=3, cpu_reclaim_threshold_percent=70).base()
    spec = first_document(base).stored()["spec"]
    assert (spec["enable"], spec["cpuReclaimThresholdPercent"]) == (True, 70)
    assert spec.keys().isdisjoint({"degradeFromSeconds", "degradeTimeMinutes"})


async def test_without_a_document_nodes_follow_the_settings_and_changed_settings() -> None:
    documents = MemoryResourceStore()
    here = await Replica(documents, decay_from_seconds=0.5, decay_to_seconds=3).open()
    followed = here.in_force.of(NodeState("n"))
    assert followed.sources == ("cluster@1",)
    assert followed.strategy == ColocationSettings(decay_from_seconds=0.5, decay_to_seconds=3).strategy()
    await Replica(documents, decay_from_seconds=0.5, decay_to_seconds=3).open()
    assert documents.rows["default"].generation == 1
    again = await Replica(documents, cpu_reclaim_threshold_percent=50).open()
    assert again.in_force.of(NodeState("n")).strategy.cpu_reclaim_threshold_percent == 50
    assert again.in_force.of(NodeState("n")).sources == ("cluster@2",)
    await again.put("default", riseWindows=4)
    last = await Replica(documents, cpu_reclaim_threshold_percent=40).open()
    strategy_now = last.in_force.of(NodeState("n")).strategy
    assert (strategy_now.cpu_reclaim_threshold_percent, strategy_now.rise_windows) == (40, 4)


async def test_layers_are_merged_for_each_node_and_named() -> None:
    here = await Replica().open()
    await here.put("default", cpuReclaimThresholdPercent=50, memoryReclaimThresholdPercent=50)
    await here.put("ssd", nodeSelector={"matchLabels": {"disk": "ssd"}}, cpuReclaimThresholdPercent=40)
    await here.put("gold", cpuReclaimThresholdPercent=30, precedence=1)
    await here.node("a", labels={"disk": "ssd"})
    await here.node("b", pool="gold", labels={"disk": "ssd", "slackwater.io/cpu-reclaim-ratio": "0.2"})
    await here.node("c", annotations={OWN: json.dumps({"riseWindows": 9}), "else": "x"})
    found = {name: here.in_force.of(state) for name, state in here.store.states.items()}
    assert [found[name].sources for name in "abc"] == [
        ("cluster@2", "pool/ssd@1"),
        ("cluster@2", "pool/gold@1", "node-label"),
        ("cluster@2", "node-annotation"),
    ]
    assert [found[name].strategy.cpu_reclaim_threshold_percent for name in "abc"] == [40, 20, 50]
    assert found["c"].strategy.rise_windows == 9
    assert here.offers("b")[-1].strategies == found["b"].sources
    assert here.store.states["c"].words.annotations == {OWN: '{"riseWindows": 9}'}, "others' are not kept"


async def test_a_change_is_followed_by_every_node_it_concerns_and_only_by_these() -> None:
    here = await Replica().open()
    await here.node("a")
    await here.node("b", pool="gold")
    before = {name: len(here.offers(name)) for name in "ab"}
    assert here.offers("b")[-1].batch.cpu_milli == 4800 - 300 - 2000
    await here.put("gold", cpuReclaimThresholdPercent=30)
    assert await here.follow() == 1
    assert here.offers("b")[-1].batch.cpu_milli == 2400 - 300 - 2000
    assert here.offers("b")[-1].strategies == ("cluster@1", "pool/gold@1")
    assert here.offers("b")[-1].reason == "offer_strategy_changed"
    assert len(here.offers("a")) == before["a"]
    assert await here.follow() == 0
    await here.put("default", enable=False)
    assert await here.follow() == 2
    assert {here.offers(name)[-1].batch for name in "ab"} == {Resources()}


async def test_an_unchanged_offer_is_published_with_the_generation_that_it_follows_now() -> None:
    here = await Replica().open()
    await here.node("a")
    before = here.offers("a")[-1]
    await here.put("default", extensions={"who": "cares"})
    assert await here.follow() == 1
    after = here.offers("a")[-1]
    assert (after.batch, after.strategies) == (before.batch, ("cluster@2",))
    assert await here.follow() == 0


async def test_a_state_from_before_strategies_were_kept_gets_its_sources_without_a_word() -> None:
    here = await Replica().open()
    await here.node("a")
    told = len(here.offers("a"))
    here.store.states["a"] = replace(here.store.states["a"], strategies=())
    assert await here.follow() == 0
    assert (here.store.states["a"].strategies, len(here.offers("a"))) == (("cluster@1",), told)


async def test_more_nodes_than_a_slice_and_a_page_all_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_strategies, "PAGE", 50)
    here = await Replica().open()
    for number in range(120):
        await here.node(f"n{number:03}")
    await here.put("default", enable=False)
    assert await here.follow() == 120


async def test_only_nodes_of_ones_own_partitions_are_decided() -> None:
    here = await Replica().open()
    for number in range(8):
        await here.node(f"n{number}")
    await here.put("default", enable=False)
    ours = {partition_of("n0")}
    await follow_strategies.follow_strategies(here.offering, here.followers, ours)
    off = {name for name in here.store.states if here.offers(name)[-1].batch == Resources()}
    assert off == {name for name in here.store.states if partition_of(name) in ours}
    here.documents.rows["default"] = StoredResource("default", 3, {"spec": 1})
    await here.in_force.catch_up()
    others = {0, 1, 2, 3, 4, 5, 6, 7} - {partition_of("default")}
    await follow_strategies.publish_document_problems(here.offering, here.followers, here.in_force, others)
    assert here.checked() == []


async def test_bad_overrides_of_a_node_keep_the_last_good_ones_and_are_published_once() -> None:
    here = await Replica().open()
    await here.node("a", annotations={OWN: '{"cpuReclaimThresholdPercent": 40}'})
    offered = here.offers("a")[-1].batch
    assert offered.cpu_milli == 3200 - 300 - 2000
    await here.describe("a", 1, annotations={OWN: '{"cpuReclaimThresholdPercent": -4}'})
    assert here.store.states["a"].cpu.published == offered.cpu_milli
    (found,) = here.checked()
    assert (found.node, found.usable, found.followed) == ("a", False, ("cluster@1", "node-annotation"))
    assert "cpuReclaimThresholdPercent: -4 is not allowed" in found.problem
    assert here.offers("a")[-1].batch == offered
    assert found.problem in {one.rejected_because for one in here.records("a")[-1].alternatives}
    await here.measure("a", 1)
    await here.describe("a", 2, annotations={OWN: '{"cpuReclaimThresholdPercent": -4}'})
    assert len(here.checked()) == 1
    status = (await here.change.read("default")).status
    assert status is not None
    assert (status.nodes, status.nodes_with_problems) == (1, 1)
    assert [(one.node, "-4" in one.problem) for one in status.problems] == [("a", True)]
    assert {one.type: (one.status, one.reason) for one in status.conditions} == {
        "Followed": ("True", "AsStored"), "NodesFollow": ("False", "InvalidNodeOverrides"),
    }  # fmt: skip
    await here.describe("a", 3, annotations={OWN: '{"cpuReclaimThresholdPercent": 35}'})
    assert [one.usable for one in here.checked()] == [False, True]
    assert here.store.states["a"].good_words is None


async def test_the_list_of_nodes_with_bad_words_is_bounded_and_the_count_is_not() -> None:
    here = await Replica().open()
    for number in range(13):
        await here.node(f"n{number:02}", labels={"slackwater.io/cpu-reclaim-ratio": "half"})
    status = (await here.change.all())[0].status
    assert status is not None
    assert (status.nodes, status.nodes_with_problems, len(status.problems)) == (13, 13, 10)
    assert status.conditions[1].message.endswith("n09 and 3 more")


async def test_a_document_that_goes_bad_keeps_its_last_good_one_and_is_published_once() -> None:
    here = await Replica().open()
    await here.put("gold", riseWindows=4)
    await here.node("a", pool="gold")
    here.documents.rows["gold"] = StoredResource("gold", 2, document("gold", riseWindows=0, bindSettleSeconds=7))
    await here.in_force.catch_up()
    followed = here.in_force.of(here.store.states["a"])
    assert (followed.strategy.rise_windows, followed.sources) == (4, ("cluster@1", "pool/gold@1"))
    await here.follow()
    await here.follow()
    (found,) = here.checked()
    assert (found.document, found.generation, found.usable) == ("gold", 2, False)
    assert found.followed == ("pool/gold@1",)
    assert "riseWindows: 0" in found.problem
    assert (here.meter.followed, here.meter.unusable) == (1, 1)
    status = (await here.change.read("gold")).status
    assert status is not None
    assert (status.observed_generation, status.nodes) == (1, 1)
    assert "keeps to generation 1" in status.conditions[0].message
    read = await here.change.read("gold")
    assert (read.metadata.generation, read.spec.fields(), read.status) == (2, {"riseWindows": 4}, status)
    assert [one.metadata.name for one in await here.change.all()] == ["default", "gold"]
    await here.put("gold", riseWindows=5)
    await here.follow()
    assert [(one.generation, one.usable) for one in here.checked()] == [(2, False), (3, True)]


async def test_after_a_restart_what_can_be_read_of_a_bad_document_counts() -> None:
    """Nothing is known then of how it was."""
    documents = MemoryResourceStore()
    rows = [
        StoredResource("default", 3, document("default", cpuReclaimThresholdPercent=40, fromTheFuture=1)),
        StoredResource("gold", 2, document("gold", riseWindows=0, bindSettleSeconds=7)),
        StoredResource("lost", 2, {"spec": {"nodeSelector": 1}}),
        StoredResource("worse", 1, {"spec": 1}),
    ]
    documents.rows = {row.name: row for row in rows}
    here = await Replica(documents).open()
    await here.node("a", pool="gold")
    followed = here.in_force.of(here.store.states["a"])
    assert followed.sources == ("cluster@0", "pool/gold@0")
    assert followed.strategy.cpu_reclaim_threshold_percent == 40
    assert followed.strategy.bind_settle_seconds == 7
    assert here.in_force.problems.keys() == {"default", "gold", "lost", "worse"}
    await here.follow()
    shown = {one.metadata.name: one.spec.fields() for one in await here.change.all()}
    assert shown == {
        "default": {"cpuReclaimThresholdPercent": 40}, "gold": {"bindSettleSeconds": 7}, "lost": {}, "worse": {},
    }  # fmt: skip
    told = {one.document: one.followed for one in here.checked()}
    assert told == {"default": ("cluster@0",), "gold": ("pool/gold@0",), "lost": (), "worse": ()}


async def test_deleting_a_bad_document_publishes_that_the_problem_is_gone() -> None:
    here = await Replica().open()
    here.documents.rows["gold"] = StoredResource("gold", 1, {"spec": 1})
    await here.in_force.catch_up()
    await here.follow()
    await here.change.delete("gold")
    await here.follow()
    assert [(one.usable, one.generation) for one in here.checked()] == [(False, 1), (True, 0)]


async def test_no_document_is_stored_that_would_leave_another_one_unusable() -> None:
    here = await Replica().open()
    await here.put("default", degradeTimeMinutes=30)
    await here.put("slow", degradeFromSeconds=1200)
    with pytest.raises(InvalidInput, match="colocationstrategy slow, which follows this one") as caught:
        await here.put("default", degradeTimeMinutes=15)
    assert caught.value.field == "spec.degradeFromSeconds"
    with pytest.raises(InvalidInput, match=r"spec\.degradeFromSeconds: 1800 is not allowed; .* \(1800 s\)"):
        await here.put("other", degradeFromSeconds=1800)
    assert "other" not in here.documents.rows


async def test_generations_keep_writers_apart_and_never_mean_two_things() -> None:
    here = await Replica().open()
    await here.put("gold", riseWindows=4)
    await here.put("gold", riseWindows=4)
    assert here.documents.rows["gold"].generation == 1, "the same changes nothing"
    with pytest.raises(Conflict, match=r"metadata\.generation: 7 was read, 1 is stored"):
        await here.change.put(strategy("gold", 7, riseWindows=5))
    with pytest.raises(Conflict, match="was read, 1 is stored"):
        await here.change.delete("gold", generation=2)
    await here.change.delete("gold", generation=1)
    with pytest.raises(NotFound):
        await here.change.delete("gold")
    await here.put("gold", riseWindows=6)
    assert here.documents.rows["gold"].generation == 3
    with pytest.raises(Conflict, match="every node follows it"):
        await here.change.delete("default")


async def test_every_replica_follows_what_any_of_them_stored() -> None:
    documents = MemoryResourceStore()
    here, there = await Replica(documents).open(), await Replica(documents).open()
    heard: list[str] = []
    there.in_force.on_change(lambda: heard.append("changed"))
    await here.put("gold", riseWindows=4)
    await there.in_force.catch_up()
    await there.in_force.catch_up()
    assert heard == ["changed"]
    state = NodeState("n", pool="gold")
    assert there.in_force.of(state) == here.in_force.of(state)
    documents.away = True
    with pytest.raises(Unavailable):
        await there.in_force.catch_up()
    assert there.in_force.of(state).sources == ("cluster@1", "pool/gold@1")


async def test_answers_are_remembered_without_end_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy_set, "MOST_KNOWN", 2)
    here = await Replica().open()
    label = "slackwater.io/cpu-reclaim-ratio"
    nodes = [NodeState("n", words=NodeOverrides({label: f"0.{number}", "name": f"n{number}"})) for number in range(5)]
    found = [here.in_force.of(state).strategy.cpu_reclaim_threshold_percent for state in nodes * 2]
    assert found == [0, 10, 20, 30, 40] * 2
    other = NodeState("m", words=NodeOverrides({label: "0.4", "name": "else"}))
    assert here.in_force.of(other) is here.in_force.of(nodes[4]), "other labels choose a pool, no more"
