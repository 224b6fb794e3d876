"""What Reservations come to, what is shown of them, and those that moves made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.descheduling.placement import expected_peak
from slackwater.migration.domain.reservation_round import AskedReservation
from slackwater.migration.domain.stored_jobs import StoredReservation
from slackwater.migration.ports import MigrationStore
from slackwater.migration.usecases.job_status import reservation_status
from slackwater.model.errors import Conflict, InvalidInput
from slackwater.reservations.documents import ReservationDocument, document_of, reservation_of
from slackwater.reservations.reservation import ReservationPhase
from slackwater.resources.hooks import Hooks, InForce

ReservationsInForce = InForce[ReservationDocument, AskedReservation]


class ReservationHooks(Hooks[ReservationDocument, AskedReservation]):
    """A changed document holds for a reservation that is pending. One that is placed or has ended keeps what it was
    placed with: its change is refused, and it is made again by deleting its document first."""

    def __init__(self, store: MigrationStore | None = None) -> None:
        self._store = store

    def validate(self, document: ReservationDocument) -> None:
        for place, owner in enumerate(document.spec.owners):
            if not (owner.uid or owner.name or owner.workload or owner.label_selector):
                field = f"spec.owners.{place}"
                raise InvalidInput(f"{field}: give uid, name, workload or labelSelector: it matches none", field=field)

    def resolve(self, document: ReservationDocument, parent: AskedReservation | None) -> AskedReservation:
        try:
            reservation = reservation_of(document, 0.0)
        except ValueError as error:
            raise InvalidInput(f"spec.resources: {error}", field="spec.resources") from None
        template = replace(reservation.template, peak=expected_peak(reservation.template.requests))
        ttl_s = reservation.expires_s if document.spec.expires is None else None
        return AskedReservation(replace(reservation, template=template), document.metadata.generation, ttl_s)

    async def prepare(self) -> Mapping[str, StoredReservation]:
        return {} if self._store is None else await self._store.reservations()

    def validate_together(
        self, changed: Collection[str], now: ReservationsInForce, would: ReservationsInForce, prepared: Any
    ) -> None:
        for name in sorted(changed):
            kept: StoredReservation | None = prepared.get(name)
            if name not in would.values or kept is None:
                continue
            if kept.job:
                said = f"metadata.name: the reservation {name} of a move has this name; choose another one"
                raise Conflict(said, code="reservation_exists", field="metadata.name")
            before, phase = now.values.get(name), kept.reservation.phase
            if before is None or phase is ReservationPhase.PENDING:
                continue
            if before.reservation != would.values[name].reservation:
                where = f" on {kept.reservation.placed_on}" if kept.reservation.placed_on else ""
                said = f"spec: reservation {name} is {phase}{where} and keeps its spec; delete it, then apply it again"
                raise Conflict(said, code="reservation_is_placed", field="spec")

    async def with_status(
        self, documents: Sequence[ReservationDocument], found: ReservationsInForce
    ) -> Sequence[ReservationDocument]:
        if self._store is None or not documents:
            return documents
        kept = await self._store.reservations()
        return [
            document.model_copy(update={"status": reservation_status(kept[document.name])})
            if document.name in kept
            else document
            for document in documents
        ]

    async def made(self) -> Sequence[ReservationDocument]:
        if self._store is None:
            return ()
        return [
            document_of(stored.reservation, "migration").model_copy(update={"status": reservation_status(stored)})
            for _, stored in sorted((await self._store.reservations()).items())
            if stored.job
        ]

    async def withdraw(self, name: str, *, dry_run: bool) -> ReservationDocument | None:
        if any(document.name == name for document in await self.made()):
            said = f"reservation {name} belongs to a move: delete its PodMigrationJob, which releases it"
            raise Conflict(said, code="reservation_of_a_move")
        return None
