"""What a trial of strategies says: every node before and after, the same as would be decided, and nothing stored."""

from __future__ import annotations

from typing import Any

import pytest
from drawn import snapshots, strategies
from hypothesis import given
from hypothesis import strategies as st
from strategy_scene import Replica, strategy

from slackwater.colocation.usecases import preview_strategies
from slackwater.model.quantities import Resources
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import Strategy
from slackwater.offers.what_if import PreviewOffers, offers_under


@given(st.lists(st.tuples(snapshots, strategies), max_size=4))
def test_each_node_has_what_would_be_decided_for_it_alone(drawn: list[tuple[NodeSnapshot, Strategy]]) -> None:
    found = offers_under([snapshot for snapshot, _ in drawn], [one for _, one in drawn])
    alone = [decide_node(snapshot, one, Gates(), 0) for snapshot, one in drawn]
    assert found == [PreviewOffers(each.batch.value, each.mid.value) for each in alone]


async def tried(here: Replica, name: str, most: int = 100, /, **spec: Any) -> preview_strategies.StrategyPreview:
    done = await here.change.put(strategy(name, **spec), dry_run=True)
    return await here.offers_with(done, most)


async def three() -> Replica:
    here = await Replica().open()
    for name, pool in (("a", "default"), ("b", "gold"), ("c", "gold")):
        await here.node(name, pool=pool)
    await here.describe("new", pool="gold")
    return here


async def test_a_trial_answers_what_then_comes_true_and_stores_nothing() -> None:
    here = await three()
    rows, states, told = dict(here.documents.rows), dict(here.store.states), len(here.store.outbox)
    answer = await tried(here, "gold", cpuReclaimThresholdPercent=30)
    assert (here.documents.rows, here.store.states, len(here.store.outbox)) == (rows, states, told)
    assert here.in_force.of(here.store.states["b"]).sources == ("cluster@1",)
    assert [one.node for one in answer.nodes] == ["b", "c", "a"]
    assert (answer.left_out, answer.unknown) == (0, 1)
    b, a = answer.nodes[0], answer.nodes[-1]
    assert (b.in_force, b.before, b.after.batch.cpu_milli) == (b.before, b.before, 100)
    assert (b.strategies_before, b.strategies_after) == (("cluster@1",), ("cluster@1", "pool/gold@1"))
    assert b.changed == pytest.approx(2400 / 8000)
    assert (a.before, a.changed) == (a.after, 0.0)
    pools = {pool.pool: (pool.nodes, pool.changed, pool.after.batch.cpu_milli) for pool in answer.pools}
    assert pools == {"default": (1, 0, 2500), "gold": (2, 2, 200)}
    await here.put("gold", cpuReclaimThresholdPercent=30)
    await here.follow()
    for one in answer.nodes:
        assert here.offers(one.node)[-1].batch == one.after.batch


async def test_of_many_nodes_those_that_change_most_are_named_and_all_are_summed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preview_strategies, "PAGE", 2)
    here = await three()
    answer = await tried(here, "gold", 1, cpuReclaimThresholdPercent=30)
    assert ([one.node for one in answer.nodes], answer.left_out) == (["b"], 2)
    assert sum(pool.nodes for pool in answer.pools) == 3
    assert (await tried(here, "gold", 0)).nodes == []


async def test_a_removal_is_tried_too_and_one_that_changes_nothing_says_so() -> None:
    here = await three()
    await here.put("gold", cpuReclaimThresholdPercent=30)
    await here.follow()
    done = await here.change.delete("gold", dry_run=True)
    answer = await here.offers_with(done, 10)
    b = next(one for one in answer.nodes if one.node == "b")
    assert (b.before.batch.cpu_milli, b.after.batch.cpu_milli) == (100, 2500)
    same = await tried(here, "gold", cpuReclaimThresholdPercent=30)
    assert sum(pool.changed for pool in same.pools) == 0


async def test_before_is_without_hysteresis_so_that_only_strategies_make_a_difference() -> None:
    """What is in force has noise in it, which no strategy has made."""
    here = await three()
    await here.measure("a", 1, 2100)
    await here.measure("a", 2, 2100)
    (a,) = [one for one in (await tried(here, "default", riseWindows=7)).nodes if one.node == "a"]
    assert a.in_force.batch.cpu_milli == 2500
    assert (a.before.batch.cpu_milli, a.after.batch.cpu_milli, a.changed) == (2400, 2400, 0.0)


async def test_an_empty_fleet_has_nothing_to_say() -> None:
    here = await Replica().open()
    answer = await tried(here, "default", enable=False)
    assert (answer.pools, answer.nodes, answer.left_out, answer.unknown) == ([], [], 0, 0)
    assert PreviewOffers().differs_by(PreviewOffers(Resources(1, 0)), Resources()) == 1.0
