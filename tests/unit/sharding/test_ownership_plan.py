"""Planned owners of partitions, for every history of joins, deaths and heartbeats."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.identifiers import PARTITIONS, SHARDS, partition_of, shard_of, shards_in
from slackwater.runtime.ownership import LeaseRow, ReplicaMember, View, plan, targets, unowned

NOW = datetime(2026, 1, 5, tzinfo=UTC)
NAMES = [f"m{number}/1" for number in range(6)]


class World:
    """The database as it would be: claims are granted only for partitions without a living owner."""

    def __init__(self) -> None:
        self.owners: dict[int, str | None] = dict.fromkeys(range(PARTITIONS))
        self.alive: set[str] = set()
        self.moves = 0

    def view(self) -> View:
        members = [ReplicaMember(name, NOW + timedelta(seconds=5)) for name in sorted(self.alive)]
        return View([LeaseRow(p, owner, 1) for p, owner in self.owners.items()], members, NOW)

    def beat(self, me: str) -> None:
        wanted = plan(self.view(), me)
        self.alive.add(me)
        for partition in wanted.release:
            assert self.owners[partition] == me
            self.owners[partition] = None
            self.moves += 1
        for partition in wanted.claim:
            assert self.owners[partition] not in self.alive - {me}  # never from the living
            self.owners[partition] = me

    def settle(self) -> None:
        for _ in range(4):
            for name in sorted(self.alive):
                self.beat(name)

    def shares(self) -> list[int]:
        counted = Counter(owner for owner in self.owners.values() if owner is not None)
        return sorted(counted.get(name, 0) for name in self.alive)


def fair(members: int) -> list[int]:
    share, larger = divmod(PARTITIONS, members)
    return sorted([share + 1] * larger + [share] * (members - larger))


@given(st.lists(st.tuples(st.sampled_from(["join", "die", "beat"]), st.sampled_from(NAMES)), max_size=40))
def test_any_history_ends_in_fair_shares_without_anything_unowned(history: list[tuple[str, str]]) -> None:
    world = World()
    world.beat(NAMES[0])
    for what, name in history:
        if what == "die" and len(world.alive) > 1:
            world.alive.discard(name)
        elif what == "join" or name in world.alive:
            world.beat(name)
    world.settle()
    assert world.shares() == fair(len(world.alive))
    assert unowned(world.view()) == []


@given(st.integers(1, 5))
def test_a_join_moves_no_more_than_the_share_of_the_new_one(members: int) -> None:
    world = World()
    for name in NAMES[:members]:
        world.beat(name)
        world.settle()
    world.moves = 0
    world.beat(NAMES[members])
    world.settle()
    assert world.moves == world.shares()[0] or world.moves <= PARTITIONS // (members + 1) + 1
    settled = world.moves
    world.settle()
    assert world.moves == settled  # and then nothing moves any more


def test_the_larger_shares_stay_with_their_replicas() -> None:
    assert targets(["a", "b", "c"], Counter({"b": 3, "c": 3, "a": 2}), 8) == {"a": 2, "b": 3, "c": 3}


def expired(name: str) -> ReplicaMember:
    return ReplicaMember(name, NOW - timedelta(seconds=1))


def test_a_returning_replica_waits_one_heartbeat_before_it_claims_from_expired_ones() -> None:
    leases = [LeaseRow(0, "other/1", 7)]
    assert plan(View(leases, [expired("other/1"), expired("me/1")], NOW), "me/1").claim == ()
    assert plan(View(leases, [expired("other/1")], NOW), "me/1").claim == ()
    me = ReplicaMember("me/1", NOW + timedelta(seconds=4))
    assert plan(View(leases, [expired("other/1"), me], NOW), "me/1").claim == (0,)


def test_the_next_incarnation_of_an_instance_takes_over_at_once() -> None:
    before = ReplicaMember("state-dir/old", NOW + timedelta(seconds=4))
    view = View([LeaseRow(p, "state-dir/old", 7) for p in range(8)], [before], NOW)
    assert plan(view, "state-dir/new").claim == tuple(range(8))


@given(st.text(max_size=30))
def test_partitions_are_groups_of_neighbouring_shards(key: str) -> None:
    assert shard_of(key) in shards_in(partition_of(key))
    assert [shard for p in range(PARTITIONS) for shard in shards_in(p)] == list(range(SHARDS))
