"""What reservations keep on each node, published for offers and quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from slackwater.events.envelope import Event, event_of
from slackwater.events.node_reserved import NodeReserved, ReservedRoom
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.migration.domain.stored_jobs import MigrationLedger, StoredReservation
from slackwater.migration.usecases.job_records import SERVICE
from slackwater.model.bounds import LATEST, MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier, default_qos
from slackwater.podmigration.jobs import MigrationStep

BEYOND_DEADLINE_S: Final = 600.0
"""A move ends within this time of its deadline: what became of its pod is confirmed first. Until then its reservation
counts, also if this service falls silent."""
_PREFIXES: Final = {Tier.PROD: "", Tier.MID: "mid-", Tier.BATCH: "batch-"}

REPEAT_S: Final = 60.0
RELEASES_REPEATED_S: Final = 300.0
MOST_NAMED: Final = 1000
"""Reservations of one node that are named in its event; what further ones keep is one sum by tier."""

RoomsByNode = Mapping[str, tuple[ReservedRoom, ...]]


class ReservedNews:
    """The events about what is kept. All are repeated every minute, because a broker that loses power forgets messages
    that it has confirmed: consumers would count what was released, or sell what is kept, until the next change."""

    def __init__(self) -> None:
        self._published_s: dict[str, float] = {}
        self._repeated_until_s: dict[str, float] = {}
        """By node that keeps nothing any more."""

    def is_due(self, now_s: float) -> bool:
        """Whether a release is to be repeated, even if there is nothing else to do."""
        return any(self._is_due(node, now_s) for node, until_s in self._repeated_until_s.items() if now_s < until_s)

    def events(self, before: MigrationLedger, after: MigrationLedger, now: datetime) -> Sequence[Event[Any]]:
        """Returns an event for each node on which something else is kept than before, and for each that was published
        long ago; without rooms where all of it was released. `before` is the ledger that is stored: its generation
        rises by one with this change."""
        now_s = now.timestamp()
        was, kept = (rooms_by_node(each) if each.reservations else {} for each in (before, after))
        for node in was.keys() - kept.keys():
            self._repeated_until_s[node] = now_s + RELEASES_REPEATED_S
        self._repeated_until_s = {
            node: until_s for node, until_s in self._repeated_until_s.items() if now_s < until_s and node not in kept
        }
        nodes = {node for node in was.keys() | kept.keys() if was.get(node, ()) != kept.get(node, ())}
        nodes |= {node for node in (*kept, *self._repeated_until_s) if self._is_due(node, now_s)}
        self._published_s = {
            node: now_s if node in nodes else self._published_s[node] for node in (*kept, *self._repeated_until_s)
        }
        generation = before.state.generation + 1
        return [
            event_of(
                NodeReserved(node=node, generation=generation, rooms=kept.get(node, ()), reserved_at=now),
                source=SERVICE,
                time=now,
            )
            for node in sorted(nodes)
        ]

    def _is_due(self, node: str, now_s: float) -> bool:
        return abs(now_s - self._published_s.get(node, 0.0)) >= REPEAT_S


def rooms_by_node(ledger: MigrationLedger) -> RoomsByNode:
    """Returns what is kept on every node that keeps something, in the order of the names of reservations."""
    found: dict[str, list[ReservedRoom]] = {}
    for _, stored in sorted(ledger.reservations.items()):
        if is_opened(stored, ledger):
            continue
        if rooms := list(_rooms(stored, _expires_s(stored, ledger))):
            found.setdefault(stored.reservation.placed_on, []).extend(rooms)
    return {node: (*rooms[:MOST_NAMED], *_merged(rooms[MOST_NAMED:])) for node, rooms in found.items()}


def is_opened(stored: StoredReservation, ledger: MigrationLedger) -> bool:
    """Whether a move's room is open to its replacement: its pod is gone, and a scheduler that reads offers must see
    room for the new one."""
    job = ledger.jobs.get(stored.job)
    return job is not None and job.job.step is MigrationStep.REPLACING


def taken_off(offered: ResourcesOffered) -> dict[str, int]:
    """Returns what reservations took off an offer, by resource: room is computed with it, because they are taken off
    there by themselves."""
    if offered.reserved is None:
        return {}
    return {
        f"{prefix}{resource}": amount
        for prefix, taken in (("batch-", offered.reserved.batch), ("mid-", offered.reserved.mid))
        for resource, amount in (("cpu", taken.cpu_milli), ("memory", taken.memory_bytes))
        if amount > 0
    }


def _rooms(stored: StoredReservation, expires_s: float | None) -> Iterator[ReservedRoom]:
    """Yields what is left of a reservation, by tier. Free has no resources of its own: what it requests is not sold."""
    template, held = stored.reservation.template, stored.reservation.held()
    expires_at = None
    if expires_s is not None and expires_s < LATEST.timestamp():
        expires_at = datetime.fromtimestamp(expires_s, UTC)
    for tier, prefix in _PREFIXES.items():
        amount = Resources(
            min(held.get(f"{prefix}cpu", 0), MOST_CPU_MILLI), min(held.get(f"{prefix}memory", 0), MOST_MEMORY_BYTES)
        )
        if amount == Resources() or (tier is Tier.PROD and template.tier is Tier.FREE):
            continue
        qos = template.qos if template.qos is not None and template.tier is tier else default_qos(tier)
        yield ReservedRoom(stored.name, tier, qos, amount, expires_at)


def _merged(rooms: Sequence[ReservedRoom]) -> Iterator[ReservedRoom]:
    """Yields the sum of each tier. It never expires by itself, because some of it may not."""
    for tier in _PREFIXES:
        amounts = [room.amount for room in rooms if room.tier is tier]
        if amounts:
            total = sum(amounts, Resources()).smaller_of(Resources(MOST_CPU_MILLI, MOST_MEMORY_BYTES))
            yield ReservedRoom(f"{len(amounts)} further ones", tier, default_qos(tier), total)


def _expires_s(stored: StoredReservation, ledger: MigrationLedger) -> float | None:
    """When it ends without further word: its own expiry, or of a move some time after its deadline."""
    own = stored.reservation.expires_s
    job = ledger.jobs.get(stored.job)
    deadline_s = None if job is None else job.job.deadline_s
    if own is not None or deadline_s is None:
        return own
    return deadline_s + BEYOND_DEADLINE_S
