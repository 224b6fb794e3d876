"""What is published of reservations fits its event, however many there are and whenever they expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slackwater.descheduling.placement import PlacedPod
from slackwater.migration.domain.stored_jobs import MigrationLedger, StoredReservation
from slackwater.migration.usecases.reserved_rooms import MOST_NAMED, ReservedNews
from slackwater.model.tiers import QoSClass, Tier
from slackwater.reservations.reservation import Reservation, ReservationOwner, ReservationPhase

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def kept(name: str, tier: Tier | None, expires_s: float | None = None, **requests: int) -> StoredReservation:
    amounts = {resource.replace("_", "-"): amount for resource, amount in requests.items()}
    template = PlacedPod("", "", "", "", tier=tier, qos=QoSClass.LSR if tier is Tier.PROD else None, requests=amounts)
    owner = ReservationOwner(workload="w")
    placed = Reservation(name, template, (owner,), 0.0, expires_s, phase=ReservationPhase.AVAILABLE, placed_on="n")
    return StoredReservation(placed)


def ledger(*reservations: StoredReservation) -> MigrationLedger:
    return MigrationLedger(reservations={stored.name: stored for stored in reservations})


def test_tiers_are_told_apart_and_what_is_sold_to_none_is_left_out() -> None:
    after = ledger(
        kept("a", Tier.PROD, cpu=1000, gpu=1),
        kept("b", None, 1e12, batch_cpu=500, mid_memory=7),
        kept("c", Tier.FREE, cpu=300),
    )
    [event] = ReservedNews().events(ledger(), after, NOW)
    rooms = [(room.name, room.tier, room.qos, room.amount.cpu_milli, room.expires_at) for room in event.data.rooms]
    assert rooms == [
        ("a", Tier.PROD, QoSClass.LSR, 1000, None),
        ("b", Tier.MID, QoSClass.LS, 0, None),  # later than any time that an event can hold
        ("b", Tier.BATCH, QoSClass.BE, 500, None),
    ]


def test_of_many_the_further_ones_are_one_sum() -> None:
    many = [kept(f"r{number:04d}", Tier.PROD, 9e9, cpu=2) for number in range(MOST_NAMED + 5)]
    [event] = ReservedNews().events(ledger(), ledger(*many), NOW)
    assert len(event.data.rooms) == MOST_NAMED + 1
    assert sum(room.amount.cpu_milli for room in event.data.rooms) == 2 * len(many)
    assert event.data.rooms[-1].expires_at is None


def test_what_is_kept_and_what_was_released_is_repeated_because_a_broker_may_lose_it() -> None:
    news, full = ReservedNews(), ledger(kept("a", Tier.PROD, cpu=1000))

    def told(before: MigrationLedger, after: MigrationLedger, seconds: float) -> list[int]:
        found = news.events(before, after, NOW + timedelta(seconds=seconds))
        return [len(event.data.rooms) for event in found]

    assert told(ledger(), full, 0) == [1]
    assert [told(full, full, second) for second in (30, 59, 60, 61, 120)] == [[], [], [1], [], [1]]
    assert told(full, ledger(), 130) == [0]
    assert not news.is_due(NOW.timestamp() + 189)
    assert news.is_due(NOW.timestamp() + 190)
    assert [told(ledger(), ledger(), 130 + second) for second in (60, 61, 299, 301, 400)] == [[0], [], [0], [], []]
    assert ReservedNews().events(full, full, NOW), "the first round of a process"
