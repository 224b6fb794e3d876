"""Assigns partitions to replicas: a pure function of members, leases and time.

Every replica computes the same targets from the database's view: each member gets a fair share, and
members that hold more keep the larger shares. A replica claims only partitions without a living
owner, and releases only those beyond its share, so a join or leave moves as few as possible.
Exclusive ownership is not decided here: the database gives each lease to one member, with an epoch
that only grows, and refuses the writes of all others (store.leases).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Timing:
    """Timing in seconds. A dead member is detected after `ttl` and replaced within one further `beat`.

    `hand_over`: drain time of an orderly hand-over; then the partition is dropped, and its work is
    redelivered elsewhere.
    """

    beat: float = 1.0
    ttl: float = 5.0
    hand_over: float = 5.0


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership of one partition. `epoch` grows with every claim, across restarts and restores of
    the database.
    """

    partition: int
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A stored lease; free without an owner. `since`: its last change of owner, by the database's
    clock.
    """

    partition: int
    owner: str | None
    epoch: int
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReplicaMember:
    """A replica and the expiry of its heartbeat, by the database's clock."""

    name: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class View:
    """The database's state at one heartbeat; `now` is its clock. Members are as before that
    heartbeat.
    """

    leases: Sequence[LeaseRow]
    members: Sequence[ReplicaMember]
    now: datetime


@dataclass(frozen=True, slots=True)
class MemberView:
    """Ownership as one replica sees it: its own name, the number of living members, and every
    lease.
    """

    member: str
    members: int
    leases: Sequence[LeaseRow]


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The actions of a replica after a heartbeat: partitions to claim, and to hand over."""

    claim: tuple[int, ...] = ()
    release: tuple[int, ...] = ()


def instance_of(member: str) -> str:
    """Returns the instance of `instance/incarnation`. Only the newest incarnation of an instance
    can be alive: its state directory is locked, or its name is random.
    """
    return member.partition("/")[0]


def living(view: View, member_name: str) -> list[str]:
    """Returns the members with a valid heartbeat by name, including this one, without its
    predecessors.
    """
    others = (
        member.name
        for member in view.members
        if member.expires_at > view.now and instance_of(member.name) != instance_of(member_name)
    )
    return sorted({member_name, *others})


def unowned(view: View) -> list[int]:
    """Returns the partitions without a living owner, whose work waits."""
    alive = {member.name for member in view.members if member.expires_at > view.now}
    return [row.partition for row in view.leases if row.owner not in alive]


def plan(view: View, member_name: str) -> PartitionPlan:
    """Returns the actions of this member now. Deterministic; repeating it on the same view gives the same
    plan.
    """
    alive = living(view, member_name)
    owned = Counter(row.owner for row in view.leases if row.owner is not None)
    mine = sorted(row.partition for row in view.leases if row.owner == member_name)
    target = targets(alive, owned, len(view.leases))[member_name]
    if len(mine) > target:
        return PartitionPlan(release=tuple(mine[target:]))
    free = [
        row.partition for row in view.leases if row.owner is None or _is_takeable(row.owner, alive, view, member_name)
    ]
    return PartitionPlan(claim=_mine_of(sorted(free), alive, member_name)[: target - len(mine)])


def targets(alive: Collection[str], owned: Counter[str], partitions: int) -> dict[str, int]:
    """Returns the target number of partitions per member: shares differ by at most one, and the
    larger ones stay in place.
    """
    share, larger = divmod(partitions, len(alive))
    ranked = sorted(alive, key=lambda name: (-owned[name], name))
    return {name: share + (rank < larger) for rank, name in enumerate(ranked)}


def _is_takeable(owner: str, alive: Collection[str], view: View, member_name: str) -> bool:
    """Returns whether a partition's owner is dead. After a database outage every member looks dead,
    so a returning replica waits one heartbeat for the others to return. This replica's predecessor
    is known to be dead.
    """
    if owner in alive:
        return False
    if instance_of(owner) == instance_of(member_name):
        return True
    return any(member.name == member_name and member.expires_at > view.now for member in view.members)


def _mine_of(free: Sequence[int], alive: Sequence[str], member_name: str) -> tuple[int, ...]:
    """Returns the free partitions, rotated per claimant so that replicas seldom compete for the
    same one.
    """
    start = alive.index(member_name) * len(free) // len(alive)
    return (*free[start:], *free[:start])
