"""Who shall own which partition: a pure function of members, leases and time.

Every replica computes the same targets from what the database says: each member gets its fair share, those who hold
more keep the larger shares. A replica claims only what nobody living owns, and releases only what is beyond its share,
so a join or a leave moves no more than it must. That at most one owns a partition is not decided here: the database
gives each lease to one, with an epoch that only grows, and refuses the writes of all others (store.leases).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership of one partition. `epoch` grows with every claim, across restarts and restores of the database."""

    partition: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as stored; without owner it is free. `since`: when it changed hands last, by the database's clock."""

    partition: int
    owner: str | None
    epoch: int
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A replica and when its heartbeat runs out, by the database's clock."""

    name: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class View:
    """What the database said at one heartbeat; `now` is its clock. Members are as they were before that heartbeat."""

    leases: Sequence[LeaseRow]
    members: Sequence[Member]
    now: datetime


@dataclass(frozen=True, slots=True)
class Standing:
    """What a replica can tell of all: its own name, how many live, and every lease."""

    member: str
    members: int
    leases: Sequence[LeaseRow]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replica does after a heartbeat: partitions to claim, and to hand over in good order."""

    claim: tuple[int, ...] = ()
    release: tuple[int, ...] = ()


def instance_of(member: str) -> str:
    """`instance/incarnation`: of one instance, only the newest incarnation can be alive (its state directory is locked,
    or its name was drawn at random)."""
    return member.partition("/")[0]


def living(view: View, me: str) -> list[str]:
    """Members whose heartbeat counts, with me and without my own predecessors, by name."""
    others = (
        member.name
        for member in view.members
        if member.expires_at > view.now and instance_of(member.name) != instance_of(me)
    )
    return sorted({me, *others})


def unowned(view: View) -> list[int]:
    """Partitions that nobody living owns: their work waits."""
    alive = {member.name for member in view.members if member.expires_at > view.now}
    return [row.partition for row in view.leases if row.owner not in alive]


def plan(view: View, me: str) -> Plan:
    """What `me` shall do now. Deterministic; calling it again before anything has happened gives the same."""
    alive = living(view, me)
    owned = Counter(row.owner for row in view.leases if row.owner is not None)
    mine = sorted(row.partition for row in view.leases if row.owner == me)
    target = targets(alive, owned, len(view.leases))[me]
    if len(mine) > target:
        return Plan(release=tuple(mine[target:]))
    free = [row.partition for row in view.leases if row.owner is None or _is_takeable(row.owner, alive, view, me)]
    return Plan(claim=_mine_of(sorted(free), alive, me)[: target - len(mine)])


def targets(alive: Collection[str], owned: Counter[str], partitions: int) -> dict[str, int]:
    """How many partitions each member shall own: shares differ by one at most, the larger ones stay where they are."""
    share, larger = divmod(partitions, len(alive))
    ranked = sorted(alive, key=lambda name: (-owned[name], name))
    return {name: share + (rank < larger) for rank, name in enumerate(ranked)}


def _is_takeable(owner: str, alive: Collection[str], view: View, me: str) -> bool:
    """Whether its owner is dead. After an outage of the database everybody looks dead: who has just come back looks on
    for one heartbeat, so that the others can come back too. My own predecessor is known to be dead."""
    if owner in alive:
        return False
    if instance_of(owner) == instance_of(me):
        return True
    return any(member.name == me and member.expires_at > view.now for member in view.members)


def _mine_of(free: Sequence[int], alive: Sequence[str], me: str) -> tuple[int, ...]:
    """The free partitions, each claimant beginning at another one, so that they seldom want the same."""
    start = alive.index(me) * len(free) // len(alive)
    return (*free[start:], *free[:start])
