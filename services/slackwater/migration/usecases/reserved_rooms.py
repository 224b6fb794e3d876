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

MOST_NAMED: Final = 1000
"""Reservations of one node that are named in its event; what further ones keep is one sum by tier."""

RoomsByNode = Mapping[str, tuple[ReservedRoom, ...]]


def reserved_events(before: MigrationLedger, after: MigrationLedger, now: datetime) -> Sequence[Event[Any]]:
    """Returns an event for each node on which something else is kept than before; without rooms where all of it was
    released. `before` is the ledger that is stored: its generation rises by one with this change."""
    if not before.reservations and not after.reservations:
        return ()
    was, now_kept = rooms_by_node(before), rooms_by_node(after)
    generation = before.state.generation + 1
    return [
        event_of(
            NodeReserved(node=node, generation=generation, rooms=now_kept.get(node, ()), reserved_at=now),
            source=SERVICE,
            time=now,
        )
        for node in sorted(was.keys() | now_kept.keys())
        if was.get(node, ()) != now_kept.get(node, ())
    ]


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
