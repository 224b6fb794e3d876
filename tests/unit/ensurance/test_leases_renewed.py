"""What renews the leases of a partition, and what is declared because it changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from ensurance_scene import Scene, described, reported
from guard_documents import DocumentScene

from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.waterline.policies.autonomy import AutonomyState

MINE = partition_of("n1")
OTHER = (MINE + 1) % len(ALL_PARTITIONS)


async def reading(position: int = 7) -> Scene:
    """One node, of whose partition something was read."""
    scene = await Scene().open()
    await scene.report(0.0)
    scene.held = {MINE: 41}
    scene.cache.positions.record("n1", position)
    return scene


def known(scene: Scene, node: str = "n1") -> GuardedNode:
    found = scene.cache.node(node)
    assert found is not None
    return found


# ---- the renewal of a partition


async def test_a_lease_renewal_names_the_owner_and_the_sequence_it_has_read() -> None:
    scene = await reading()
    assert await scene.renew() == 1
    (told,) = scene.told
    assert (told.writer, told.partition, told.epoch, told.read_up_to) == ("ensurance", MINE, 41, 7)
    assert told.heard_within_seconds == scene.settings.silent_seconds
    assert scene.renew.interval_seconds == pytest.approx(scene.settings.lease_seconds / 3)
    assert scene.metric("slackwater_ensurance_lease_renewals_total", result="told") == 1


async def test_nodes_of_the_partition_whose_agents_are_blocked_are_named() -> None:
    scene = await reading()
    names = [f"n{number}" for number in range(40)]
    scene.blocked = tuple(reversed(names))
    await scene.renew()
    assert scene.told[0].blocked == tuple(sorted(name for name in names if partition_of(name) == MINE))
    assert 0 < len(scene.told[0].blocked) < len(names)


async def test_what_is_not_ours_now_is_not_renewed() -> None:
    scene = await reading()
    scene.held = {}
    assert await scene.renew() == 0


async def test_an_owner_that_has_read_nothing_renews_no_lease() -> None:
    scene = await reading()
    scene.held = {MINE: 41, OTHER: 42}
    await scene.renew()
    assert [told.partition for told in scene.told] == [MINE]


async def test_what_another_owner_read_before_does_not_count() -> None:
    scene = await reading()
    scene.cache.drop([MINE])
    assert await scene.renew() == 0
    scene.cache.positions.record("n1", 9)  # it was still in hand
    await scene.cache.acquire([MINE], scene.clock.now())
    assert await scene.renew() == 0


async def test_an_intent_that_cannot_get_out_holds_up_its_partition_alone() -> None:
    scene = await reading()
    scene.held = {MINE: 41, OTHER: 42}
    scene.cache.positions.by_partition[OTHER] = 7
    scene.waiting = {MINE: scene.renew.interval_seconds + 0.1, OTHER: scene.renew.interval_seconds - 0.1}
    assert await scene.renew() == 1
    assert [told.partition for told in scene.told] == [OTHER]
    assert scene.metric("slackwater_ensurance_lease_renewals_total", result="outbox_behind") == 1


async def test_without_postgresql_nothing_is_renewed() -> None:
    scene = await reading()
    scene.waiting = None
    with pytest.raises(Unavailable):
        await scene.renew()
    assert scene.told == []
    assert scene.metric("slackwater_ensurance_lease_renewals_total", result="unavailable") == 1


async def test_where_nothing_is_read_any_more_nothing_is_renewed() -> None:
    """The stream may have begun anew, and the consumer stand still: an old position would promise too much."""
    scene = await reading()
    await scene.renew()
    await scene.clock.advance(scene.settings.silent_seconds)
    assert await scene.renew() == 1
    await scene.clock.advance(1)
    assert await scene.renew() == 0
    scene.cache.positions.record("n1", 1)
    assert await scene.renew() == 1
    assert scene.told[-1].read_up_to == 1, "the last counts, not the highest"


# ---- what is declared because it changed


async def test_a_calm_fleet_declares_nothing() -> None:
    scene = await reading()
    before = len(scene.intents())
    for _ in range(30):
        await scene.report(0.0)
        assert await scene.reconcile() == 0
    assert len(scene.intents()) == before
    assert scene.intents()[-1].lease_seconds == scene.settings.lease_seconds


async def test_a_silent_node_is_left_once_and_found_again() -> None:
    scene = await reading()
    await scene.report(0.2)
    first = scene.intents()[-1]
    await scene.clock.advance(scene.settings.silent_seconds + 1)
    assert [await scene.reconcile(), await scene.reconcile()] == [1, 0]
    left = scene.intents()[-1]
    assert left.lease_seconds == 0
    assert left.throttles == first.throttles
    assert left.declared_at > first.declared_at
    assert left.generation == first.generation
    await scene.report(None)
    assert [await scene.reconcile(), await scene.reconcile()] == [1, 0]
    assert scene.intents()[-1].lease_seconds == scene.settings.lease_seconds


async def test_a_decision_for_a_node_that_was_left_holds_at_once() -> None:
    scene = await reading()
    await scene.clock.advance(scene.settings.silent_seconds + 1)
    await scene.reconcile()
    await scene.report(0.3)
    assert scene.limits()
    assert scene.intents()[-1].lease_seconds == scene.settings.lease_seconds


async def test_a_node_whose_reports_cannot_be_used_is_left_like_a_silent_one() -> None:
    """Its clock is wrong: they are read, and nothing may follow from them."""
    scene = await reading()
    for _ in range(14):
        await scene.clock.advance(5)
        scene.sequence += 1
        await scene.guard(reported(scene.sequence, at=scene.clock.now() - timedelta(minutes=5), pressure=0.9))
        scene.cache.positions.record("n1", 100 + scene.sequence)
        assert await scene.renew() == 1
        await scene.reconcile()
    assert scene.intents()[-1].lease_seconds == 0


async def test_no_node_is_marked_silent_while_the_bus_or_postgresql_is_away() -> None:
    scene = await reading()
    await scene.clock.advance(600)
    scene.reconcile.interrupt()
    await scene.clock.advance(scene.settings.silent_seconds)
    assert await scene.reconcile() == 0
    await scene.clock.advance(1)
    assert await scene.reconcile() == 1


async def test_an_agent_that_starts_gets_its_intent_again() -> None:
    """The stream of intents may have been lost with its broker, and a node that was left is heard again."""
    scene = await reading()
    await scene.report(0.2)
    await scene.clock.advance(scene.settings.silent_seconds + 1)
    await scene.reconcile()
    await scene.clock.advance(1)
    await scene.describe(described("n1", at=scene.clock.now()))
    again = scene.intents()[-1]
    assert (again.generation, len(again.throttles)) == (2, 1)
    assert again.lease_seconds == scene.settings.lease_seconds
    assert again.declared_at == scene.clock.now()


async def test_agents_are_notified_when_their_pool_may_do_less_disconnected_and_when_it_may_again() -> None:
    scene = DocumentScene()
    await scene.open()
    await scene.allow_evictions()
    await scene.report(0.0)
    assert await scene.reconcile() == 0
    pool, said = known(scene).pool, scene.intents()[-1].rules
    granted = scene.cache.rules.autonomy_of(pool)
    stepped = AutonomyState(granted.generation, stepped_back_at=scene.clock.now(), because="a test")
    scene.cache.stands(PoolStanding(pool, state=stepped))
    assert [await scene.reconcile(), await scene.reconcile()] == [1, 0]
    assert scene.intents()[-1].rules != said
    scene.cache.stands(PoolStanding(pool))
    assert await scene.reconcile() == 1
    assert scene.intents()[-1].rules == said


async def test_a_fleet_is_declared_in_parts_between_which_reports_have_their_turn() -> None:
    scene = await reading()
    one = known(scene)
    for number in range(500):
        scene.cache.put(replace(one, node=f"node-{number}", version=0))
    writes = scene.database.writes
    assert await scene.reconcile.acquire(ALL_PARTITIONS) == 501
    assert scene.database.writes - writes == 3
    assert await scene.reconcile.acquire([]) == 0
