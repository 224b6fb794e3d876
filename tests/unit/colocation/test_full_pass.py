"""The full pass over all offers: it changes nothing that is right, and repairs and publishes damaged ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from colocation_scene import Colocation, received
from tests.support.windows import described, window

from slackwater.colocation.ports import Found
from slackwater.colocation.usecases.full_pass import EVERY, ON_ITS_WAY_SECONDS, SLICE, FullPass, Passed
from slackwater.decisions.reasons import Reason
from slackwater.events.envelope import Event
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.quantities import Resources
from slackwater.offers.node import NodeState
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.strategy import MidMode, Strategy

DYNAMIC = Strategy(mid_mode=MidMode.DYNAMIC, mid_cpu_threshold_percent=10)


class Site(Colocation):
    """Nodes that the pass looks at as fast as it can."""

    def __init__(self, strategy: Strategy = DYNAMIC) -> None:
        super().__init__(strategy)
        self.lost: set[str] = set()
        """Ids of events that were published and that the broker has lost."""
        self.full_pass = FullPass(self.latest)
        self.offering = replace(self.offering, decided=self.full_pass.decided)
        self.follow(strategy)

    async def latest(self, payload: type[Any], node: str) -> Event[Any] | None:
        """The last event of the node in its stream."""
        kept = [event for event in self.store.outbox if event.id not in self.lost]
        return next((one for one in reversed(kept) if isinstance(one.data, payload) and one.data.node == node), None)

    async def window(self, number: int, *nodes: str) -> None:
        await self.clock.advance(
            (described("n", number=number + 1).data.described_at - self.clock.now()).total_seconds()
        )
        for node in nodes:
            await self.events.on_usage([received(window(node, number, {"p": 500}))])

    async def looked(self, partitions: frozenset[int] | range = ALL_PARTITIONS) -> Passed:
        passed = Passed()
        await self.full_pass.run(self.offering, lambda: partitions, 0, passed)
        return passed

    def damage(self, node: str, **fields: object) -> None:
        self.store.states[node] = replace(self.store.states[node], **fields)  # type: ignore[arg-type] # fields by name


async def site(nodes: int = 3) -> Site:
    """All described, measured and looked at once."""
    found = Site()
    names = [f"n{number}" for number in range(nodes)]
    for name in names:
        await found.events.on_described([received(described(name, zones=2))])
    for number in range(3):
        await found.window(number, *names)
    await found.looked()
    return found


async def test_a_healthy_system_has_nothing_to_heal() -> None:
    healthy = await site()
    told = len(healthy.store.outbox)
    for number in range(3, 15):
        await healthy.window(number, "n0", "n1", "n2")
        passed = await healthy.looked()
        assert passed.counts[Found.HEALED] == 0
        assert sum(passed.counts.values()) == 3
    assert healthy.offers() != []
    assert len(healthy.store.outbox) == told


async def test_nodes_that_were_just_decided_are_skipped_and_have_their_turn_all_the_same() -> None:
    healthy = await site(20)
    names, looked = sorted(healthy.store.states), 0
    for number in range(3, 3 + EVERY):
        await healthy.window(number, *names)
        passed = await healthy.looked()
        assert passed.counts[Found.SKIPPED] >= 20 // 2
        looked += passed.counts[Found.SAME]
    assert looked == 20  # each once in so many passes
    quiet = await healthy.looked()
    assert quiet.counts[Found.SAME] == 20  # no offer was decided since: all are checked


@pytest.mark.parametrize(
    ("fields", "heals"),
    [
        ({"cpu": PublishGate(published=7999)}, True),
        ({"memory": PublishGate(published=2**60)}, True),
        ({"mid_cpu": PublishGate(published=5000)}, True),
        ({"zones": {"node0": Resources(1, 1), "node1": Resources(7000, 2**60)}}, True),
        ({"degraded": "usage is old"}, True),
        ({"due_at": 2**40}, False),
    ],
)
async def test_an_offer_with_damaged_state_is_repaired_and_published(fields: dict[str, object], heals: bool) -> None:
    broken = await site()
    before = broken.store.states["n1"]
    broken.damage("n1", **fields)
    told = len(broken.offers())
    passed = await broken.looked()
    after = broken.store.states["n1"]
    assert (after.batch, after.mid, after.zones, after.degraded, after.due_at) == (
        before.batch,
        before.mid,
        before.zones,
        None,
        before.due_at,
    )
    assert passed.healed == (["n1"] if heals else [])
    assert [offer.reason for offer in broken.offers()[told:]] == ([Reason.OFFER_HEALED] if heals else [])
    assert (await broken.looked()).counts[Found.HEALED] == 0


@pytest.mark.parametrize("which", [slice(-1, None), slice(None)], ids=["the last", "all"])
async def test_an_offer_that_the_broker_lost_is_published_again(which: slice) -> None:
    bereft = await site()
    await bereft.window(3)
    await bereft.events.on_usage([received(window("n1", 3, {"p": 2500}))])
    offers = [event for event in bereft.store.outbox if isinstance(event.data, ResourcesOffered)]
    of_node = [event for event in offers if event.data.node == "n1"]
    bereft.lost = {event.id for event in of_node[which]}
    assert not (await bereft.looked()).healed, "it may be on its way"
    await bereft.clock.advance(ON_ITS_WAY_SECONDS)
    assert (await bereft.looked()).healed == ["n1"]
    again, last = bereft.offers()[-1], of_node[-1].data
    assert (again.node, again.batch, again.mid) == ("n1", last.batch, last.mid)
    assert (again.generation, again.reason) == (last.generation + 1, Reason.OFFER_HEALED)
    assert {record.id for record in bereft.records()} >= set(again.decision_ids.values())
    await bereft.clock.advance(ON_ITS_WAY_SECONDS)
    assert not (await bereft.looked()).healed


async def test_an_offer_that_was_damaged_downwards_rises_again_with_the_next_windows() -> None:
    broken = await site()
    before = broken.store.states["n1"].batch
    broken.damage("n1", cpu=PublishGate(published=5))
    await broken.looked()
    for number in (3, 4):
        await broken.window(number, "n0", "n1", "n2")
    assert broken.store.states["n1"].batch == before


async def test_what_time_alone_changes_is_left_to_the_timer() -> None:
    ageing = await site()
    await ageing.clock.advance(600)
    passed = await ageing.looked()
    assert sum(passed.counts.values()) == 0


async def test_an_offer_of_nothing_that_grows_old_is_no_damage() -> None:
    full = Site(Strategy(cpu_reclaim_threshold_percent=0, memory_reclaim_threshold_percent=0))
    await full.events.on_described([received(described("n0"))])
    await full.window(0, "n0")
    await full.looked()
    assert not full.store.states["n0"].offers_something
    await full.clock.advance(600)
    assert (await full.looked()).counts[Found.AGED] == 1
    assert full.offers()[-1].reason == Reason.OFFER_DEGRADED
    assert (await full.looked()).counts[Found.SAME] == 1


async def test_a_strategy_that_was_not_followed_yet_is_no_damage() -> None:
    changed = await site()
    changed.follow(replace(DYNAMIC, cpu_reclaim_threshold_percent=30), "cluster@2")
    passed = await changed.looked()
    assert passed.counts == dict.fromkeys(Found, 0) | {Found.FOLLOWED: 3}
    assert {offer.reason for offer in changed.offers()[-3:]} == {Reason.OFFER_CHANGED}


async def test_only_nodes_of_our_partitions_are_looked_at() -> None:
    ours = await site(20)
    mine = {partition_of("n0")}
    here = [node for node in ours.store.states if partition_of(node) in mine]
    assert sum((await ours.looked(frozenset(mine))).counts.values()) == len(here)


async def test_a_pass_is_spread_over_its_time_and_lets_events_in_between() -> None:
    large = await site(3 * SLICE)
    began, passed = large.clock.now(), Passed()
    task = asyncio.create_task(large.full_pass.run(large.offering, lambda: ALL_PARTITIONS, 60, passed))
    seen = []
    while not task.done():
        await large.clock.advance(1)
        seen.append(sum(passed.counts.values()))
    assert large.clock.now() - began <= timedelta(seconds=62)
    assert sorted({0, SLICE, 2 * SLICE, 3 * SLICE}) == sorted(set(seen))


async def test_states_without_windows_are_no_reason_to_stumble() -> None:
    empty = Site()
    empty.store.states["new"] = NodeState("new")
    assert (await empty.looked()).counts[Found.SAME] == 1
